"""Expectations: functions that make a check of their arguments.

An expectation is a function of its arguments that returns a `Finder`: `@row_check` and `@column_check` turn it into a function
that returns a `Check`. A row check is about each value, and takes `mostly`; a column check is about all values together.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from pytest_crucible.datasets.check import Check, Finder, Finding, bind_files
from pytest_crucible.datasets.columns import Table
from pytest_crucible.features import load_rows
from pytest_crucible.records.datasets import Severity
from pytest_crucible.records.errors import SpecError, suggest

# Arguments that name a column, so that all columns are read in one pass over the samples.
COLUMN_ARGUMENTS = ("column", "other", "answer", "prompt", "label")


Expectation = Callable[..., Check]
"""A function that returns a check; it takes the option `severity`."""


def row_check(function: Callable[..., Finder | Check]) -> Expectation:
    """Turn a function that returns a finder into an expectation on each value, with the options `mostly` and `severity`."""
    return _expectation(function, takes_mostly=True)


def column_check(function: Callable[..., Finder | Check]) -> Expectation:
    """Turn a function that returns a finder into an expectation on a whole column, with the option `severity`."""
    return _expectation(function, takes_mostly=False)


def _expectation(function: Callable[..., Any], *, takes_mostly: bool) -> Expectation:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def build(*arguments: Any, **options: Any) -> Check:
        __tracebackhide__ = True
        call = call_text(function.__name__, arguments, options)
        named = dict(options)
        severity, mostly = named.pop("severity", "error"), named.pop("mostly", 1.0 if takes_mostly else None)
        if mostly is not None and not takes_mostly:
            raise SpecError(f"{call}: the check is about the whole column; remove mostly")
        if severity not in get_args(Severity):
            raise SpecError(f"{call}: severity must be 'error' or 'warn'")
        if mostly is not None and (
            isinstance(mostly, bool) or not isinstance(mostly, int | float) or not 0 < mostly <= 1
        ):
            raise SpecError(f"{call}: mostly must be a share above 0 and at most 1, such as 0.99")
        bound = _bind(signature, call, arguments, named)
        try:
            find = function(*bound.args, **bound.kwargs)
        except SpecError as error:
            # A check that lacks a library names itself, not its arguments.
            named_already = str(error).startswith(f"{function.__name__} ")
            raise SpecError(str(error) if named_already else f"{call}: {error}") from None
        check = find if isinstance(find, Check) else Check(subject="", call="", find=find)
        return replace(
            check,
            subject=subject_text(function.__name__, arguments, options),
            call=call,
            identity=f"{_home(function)}.{function.__name__}{bound.arguments!r}{mostly}",
            severity=severity,
            mostly=mostly if check.mostly is None else check.mostly,
            columns=check.columns
            or tuple(bound.arguments[each] for each in COLUMN_ARGUMENTS if each in bound.arguments),
        )

    build.__signature__ = _public_signature(signature, takes_mostly)  # type: ignore[attr-defined]  # read by inspect
    return build


_COMBINED = ("combined", ("expect_all", "expect_any", "expect_at_least"))
"""The module in which the checks of this one were first written, as features name theirs."""


def _home(function: Callable[..., Any]) -> str:
    """Return the module in which a check was first written. Stored gates have it in identities, so that checks may move."""
    if not function.__module__.startswith("pytest_crucible."):
        return function.__module__
    homes = {name: home for _, (home, names) in (*load_rows("checks"), (None, _COMBINED)) for name in names}
    module = function.__module__.rpartition(".")[2]
    return f"pytest_crucible.datasets.checks.{homes.get(function.__name__, module)}"


def _public_signature(signature: inspect.Signature, takes_mostly: bool) -> inspect.Signature:
    """Return the signature with the options that every check takes."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    further = [inspect.Parameter("mostly", keyword, default=1.0, annotation="float")] if takes_mostly else []
    further.append(inspect.Parameter("severity", keyword, default="error", annotation="Severity"))
    parameters = [*signature.parameters.values(), *further]
    return signature.replace(parameters=parameters, return_annotation="Check")


def _bind(
    signature: inspect.Signature, call: str, arguments: Sequence[Any], options: Mapping[str, Any]
) -> inspect.BoundArguments:
    unknown = next((name for name in options if name not in signature.parameters), None)
    if unknown is not None:
        names = [*signature.parameters, "severity"]
        hint = suggest(unknown, names, otherwise=f"it takes {', '.join(names)}")
        raise SpecError(f"{call}: it has no option {unknown!r}; {hint}")
    try:
        bound = signature.bind(*arguments, **options)
    except TypeError as error:
        raise SpecError(f"{call}: {error}; it takes {', '.join(signature.parameters)}") from None
    bound.apply_defaults()
    for name in COLUMN_ARGUMENTS:
        value = bound.arguments.get(name, "x")
        if not isinstance(value, str) or not value:
            raise SpecError(f"{call}: {name} must be the name of a field, such as 'expected' or 'expected.label'")
    return bound


# A schema or a list of a thousand labels would fill a nodeid.
LONGEST_ARGUMENT = 60


def call_text(name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> str:
    """Return a call as it is written.

    >>> call_text("expect_label_balance", ("label",), {"min_ratio": 0.2})
    'expect_label_balance("label", min_ratio=0.2)'
    """
    texts = [*map(_source_text, arguments), *(f"{key}={_source_text(value)}" for key, value in options.items())]
    return f"{name}({', '.join(texts)})"


def subject_text(name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> str:
    """Return a call as a part of a nodeid: without quotes, and without its severity.

    >>> subject_text("expect_no_missing_values", ("label",), {"severity": "warn"})
    'expect_no_missing_values(label)'
    """
    texts = [_nodeid_text(value) for value in arguments]
    texts += [f"{key}={_nodeid_text(value)}" for key, value in options.items() if key != "severity"]
    # A nodeid is divided at its double colons.
    return f"{name}({', '.join(texts)})".replace("::", ":")


def _source_text(value: Any) -> str:
    if isinstance(value, Check):
        return value.call
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple) and value and all(isinstance(item, Check) for item in value):
        return f"[{', '.join(item.call for item in value)}]"
    return _shorten(repr(value))


def _nodeid_text(value: Any) -> str:
    if isinstance(value, Check):
        return value.subject
    if isinstance(value, str):
        return _shorten(" ".join(value.split()))
    if isinstance(value, list | tuple) and all(isinstance(item, str | int | float | Check) for item in value):
        return f"[{_shorten(', '.join(map(_nodeid_text, value)))}]"
    return _shorten(repr(value))


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_ARGUMENT else f"{text[: LONGEST_ARGUMENT - 3]}..."


def check_range(low: Any, high: Any, check_end: Callable[[str, Any], None] | None = None) -> None:
    """Raise SpecError unless at least one end is given, both are numbers (or pass `check_end`), and they are in order."""
    if low is None and high is None:
        raise SpecError("give min, max or both")
    ends = [(name, end) for name, end in (("min", low), ("max", high)) if end is not None]
    for name, end in ends:
        check_number(name, end)
    if len(ends) == 2 and low > high:
        raise SpecError("min is above max; swap them")
    for name, end in ends:
        if check_end is not None:
            check_end(name, end)


def check_number(name: str, value: Any) -> None:
    """Raise SpecError unless the value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SpecError(f"{name} is {value!r}; write a number")


def check_share(name: str, value: Any) -> None:
    """Raise SpecError unless the value is a number between 0 and 1."""
    check_number(name, value)
    if not 0 < value < 1:
        raise SpecError(f"{name} is {value!r}; write a share between 0 and 1, such as 0.05")


def check_count(name: str, value: Any) -> None:
    """Raise SpecError unless the value is a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SpecError(f"{name} is {value!r}; write a whole number")


def check_flag(name: str, value: Any) -> None:
    """Raise SpecError unless the value is True or False."""
    if not isinstance(value, bool):
        raise SpecError(f"{name} is {value!r}; write True or False")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise SpecError for a value that is not one of the choices."""
    names = list(choices)
    if value not in names:
        hint = suggest(str(value), names, always=f"write one of {', '.join(names)}")
        raise SpecError(f"{name} is {value!r}; {hint}")


def is_outside(numbers: Any, low: float | None, high: float | None) -> Any:
    """Return, for a number or each of an array, whether it is not a number, below `low` or above `high`."""
    return (
        np.isnan(numbers)
        | (numbers < (-np.inf if low is None else low))
        | (numbers > (np.inf if high is None else high))
    )


def range_text(low: float | None, high: float | None) -> str:
    """Return a range in words.

    >>> range_text(0, 99), range_text(None, 5), range_text(1, None)
    ('between 0 and 99', 'at most 5', 'at least 1')
    """
    if low is None:
        return f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"between {low:g} and {high:g}"


@column_check
def expect_all(checks: Sequence[Check]) -> Check:
    """Expect that all of the checks are met."""
    return _combine(_children(checks), len(checks))


@column_check
def expect_any(checks: Sequence[Check]) -> Check:
    """Expect that at least one of the checks is met."""
    return _combine(_children(checks), 1)


@column_check
def expect_at_least(count: int, checks: Sequence[Check]) -> Check:
    """Expect that at least `count` of the checks are met."""
    check_count("count", count)
    children = _children(checks)
    if not 1 <= count <= len(children):
        raise SpecError(
            f"count is {count}, and there are {len(children)} checks; write a number from 1 to {len(children)}"
        )
    return _combine(children, count)


def _children(checks: Any) -> tuple[Check, ...]:
    if not isinstance(checks, list | tuple) or not checks or not all(isinstance(check, Check) for check in checks):
        raise SpecError('give a list of checks, such as [expect_no_missing_values("label")]')
    if any(check.drops for check in checks):
        raise SpecError("drop=True leaves samples out, which a combined check cannot; give that check by itself")
    return tuple(checks)


def _combine(children: tuple[Check, ...], least: int) -> Check:
    def find(table: Table) -> Finding:
        results = [child.run(table) for child in children]
        met = sum(result.state == "passed" for result in results)
        expected = "all" if least == len(results) else f"at least {least}"
        faults = "; ".join(result.sentence for result in results if result.state != "passed")
        more = "" if met >= least else f", and {expected} are expected: {faults}"
        message = f"{met} of {len(results)} checks are met{more}"
        return Finding(message=message, checked=len(table), is_met=met >= least)

    return Check(
        subject="",
        call="",
        find=find,
        columns=tuple(name for child in children for name in child.columns),
        children=children,
        files=tuple(file for child in children for file in child.files),
        bind=lambda context: _combine(tuple(bind_files(child, context) for child in children), least).find,
    )
