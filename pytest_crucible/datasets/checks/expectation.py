"""Expectations: functions that make a check of their arguments.

An expectation is a function of its arguments that returns a `Finder`: `@row_check` and `@column_check` turn it into a function
that returns a `Check`. A row check is about each value, and takes `mostly`; a column check is about all values together.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast, get_args

from pytest_crucible.datasets.checks.call_text import call_text, subject_text
from pytest_crucible.datasets.checks.check import Check, Finder
from pytest_crucible.records.data_checks import Severity
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest

# Arguments that name a column, so that all columns are read in one pass over the samples.
COLUMN_ARGUMENTS = ("column", "other", "answer", "prompt", "label")


class Expectation(Protocol):
    """A function that returns a check."""

    def __call__(self, *arguments: Any, severity: Severity = "error", **options: Any) -> Check: ...


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
        _check_options(call, severity, mostly)
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
            identity=f"{function.__module__}.{function.__name__}{bound.arguments!r}{mostly}",
            severity=severity,
            mostly=mostly if check.mostly is None else check.mostly,
            columns=check.columns or _column_names(bound),
        )

    build.__signature__ = _public_signature(signature, takes_mostly)  # type: ignore[attr-defined]  # read by inspect
    return cast(Expectation, build)


def _public_signature(signature: inspect.Signature, takes_mostly: bool) -> inspect.Signature:
    """Return the signature with the options that every check takes."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    further = [inspect.Parameter("mostly", keyword, default=1.0, annotation="float")] if takes_mostly else []
    further.append(inspect.Parameter("severity", keyword, default="error", annotation="Severity"))
    parameters = [*signature.parameters.values(), *further]
    return signature.replace(parameters=parameters, return_annotation="Check")


def _check_options(call: str, severity: Any, mostly: Any) -> None:
    if severity not in get_args(Severity):
        raise SpecError(f"{call}: severity must be 'error' or 'warn'")
    if mostly is None:
        return
    if isinstance(mostly, bool) or not isinstance(mostly, int | float) or not 0 < mostly <= 1:
        raise SpecError(f"{call}: mostly must be a share above 0 and at most 1, such as 0.99")


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


def _column_names(bound: inspect.BoundArguments) -> tuple[str, ...]:
    return tuple(bound.arguments[name] for name in COLUMN_ARGUMENTS if name in bound.arguments)
