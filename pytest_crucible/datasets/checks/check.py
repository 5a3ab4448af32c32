"""Checks: expectations with their arguments, which find the samples that do not meet them.

An expectation is a function of its arguments that returns a `Finder`: `@row_check` and `@column_check` turn it into a function that
returns a `Check`. A row check is about each value, and takes `mostly`; a column check is about all values together.
"""

from __future__ import annotations

import functools
import heapq
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, get_args

import numpy as np

from pytest_crucible.datasets.checks.columns import MissingColumn, Positions, Table
from pytest_crucible.records.data_checks import MOST_IDS, CheckResult, CheckState, Severity
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.records.suggestions import suggest

# Arguments that name a column, so that all columns are read in one pass over the samples.
COLUMN_ARGUMENTS = ("column", "other", "answer", "prompt", "label")
# Failing samples that a message names; the JSON report has all.
SHOWN_IDS = 5
# A schema or a list of a thousand labels would fill a nodeid.
LONGEST_ARGUMENT = 60

NOTHING = np.array([], dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of an expectation on a table, before it is decided."""

    message: str
    """What is expected, for a row check: `between 0 and 99`. What was found, for a column check: `the mean is 41.2`."""
    fault: str = ""
    """Describes the failing values, such as `repeat another text`; by default, that they are not `message`."""
    failing: Positions = field(default_factory=lambda: NOTHING)
    """Positions of samples that do not meet the expectation."""
    checked: int = 0
    missing: int = 0
    is_met: bool = True
    """Of a column check. Of a row check it follows from `failing`."""
    is_open: bool = False
    """Neither met nor missed is proven: the check warns, even if its severity is an error."""
    p_value: float | None = None
    """For a check that fails on proof: all such checks of a dataset share one error rate (Holm)."""
    adjust: Callable[[float, int], Finding] | None = None
    """Returns the finding with an adjusted p-value, as one of so many."""


Finder = Callable[[Table], Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """The places of the files that a check reads."""

    folder: Path = Path()
    """The folder that relative paths count from."""
    cache: Path | None = None
    """The folder of earlier comparisons with training files; None to compare again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An expectation with its arguments."""

    subject: str
    call: str
    find: Finder = field(repr=False)
    columns: tuple[str, ...] = ()
    severity: Severity = "error"
    mostly: float | None = None
    """The least share of values that have to meet it; None for a check on the whole column."""
    children: tuple[Check, ...] = ()
    """The checks that are combined into this one."""
    files: tuple[str, ...] = ()
    """Further files that the check reads; relative paths count from `folder`."""
    drops: bool = False
    """Failing samples are left out of the experiment instead of failing the check."""
    identity: str = ""
    """The function and all its arguments, unshortened: equal for equal checks."""
    shares_alpha: bool = False
    """Its findings have p-values, which are adjusted over all such checks of a dataset."""
    bind: Callable[[CheckContext], Finder] | None = field(default=None, repr=False)
    """Of a check that reads files: returns its finder for the places of files."""

    def run(self, table: Table) -> CheckResult:
        """Return the result on a table."""
        return self.decide(table, self.search(table))

    def search(self, table: Table) -> Finding | str:
        """Return the finding, or the error: an error fails the check and does not end the session."""
        try:
            return self.find(table)
        except (MissingColumn, CrucibleError) as error:
            return str(error)
        # A schema or a tokenizer is code of the suite, which may raise anything.
        except Exception as error:
            return f"it raised {type(error).__name__}: {error}"

    def decide(self, table: Table, finding: Finding | str) -> CheckResult:
        """Return the result of a finding."""
        if isinstance(finding, str):
            return self._result("failed", finding)
        if self.mostly is None:
            met, message = finding.is_met, finding.message
        else:
            met, message = _decide_rows(finding, self.mostly)
        if len(finding.failing):
            ids = heapq.nsmallest(MOST_IDS, table.ids(finding.failing.tolist()))
            message += f": {ids_text(ids, len(finding.failing))}"
        else:
            ids = []
        if finding.missing:
            message += f"; {finding.missing:,} missing {'value was' if finding.missing == 1 else 'values were'} skipped"
        state: CheckState = "failed" if not met else "warned" if finding.is_open else "passed"
        result = self._result(state, message)
        return replace(
            result,
            checked=finding.checked,
            missing=finding.missing,
            failing=len(finding.failing),
            samples=tuple(ids),
        )

    def _result(self, state: CheckState, message: str) -> CheckResult:
        if state == "failed" and self.severity == "warn":
            state = "warned"
        return CheckResult(subject=self.subject, call=self.call, state=state, message=message)


def _decide_rows(finding: Finding, mostly: float) -> tuple[bool, str]:
    """Return whether enough values meet an expectation, and a sentence."""
    checked, failing = finding.checked, len(finding.failing)
    if not checked:
        return False, "no sample has a value"
    # 19 of 20 meet 0.95 also where the quotient comes out a last digit short.
    met = checked - failing >= mostly * checked - 1e-9
    if not failing:
        return met, f"all {checked:,} are {finding.message}"
    fault = finding.fault or f"are not {finding.message}"
    allowance = "" if mostly == 1 else f", and {1 - mostly:.4g} may" if met else f", and at most {1 - mostly:.4g} may"
    return met, f"{failing:,} of {checked:,} {fault} ({failing / checked:.4g}{allowance})"


def ids_text(ids: Sequence[str], total: int) -> str:
    """Return the first ids, and how many follow.

    >>> ids_text(["a", "b"], 2), ids_text(list("abcdefgh"), 8)
    ('a, b', 'a, b, c, d, e and 3 more')
    """
    listed_ids = ", ".join(ids[:SHOWN_IDS])
    return listed_ids if total <= SHOWN_IDS else f"{listed_ids} and {total - SHOWN_IDS:,} more"


Function = TypeVar("Function", bound=Callable[..., Any])


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
        raise SpecError(f"{call}: severity is 'error' or 'warn'")
    if mostly is None:
        return
    if isinstance(mostly, bool) or not isinstance(mostly, int | float) or not 0 < mostly <= 1:
        raise SpecError(f"{call}: mostly is a share above 0 and at most 1, such as 0.99")


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
            raise SpecError(f"{call}: {name} is the name of a field, such as 'expected' or 'expected.label'")
    return bound


def _column_names(bound: inspect.BoundArguments) -> tuple[str, ...]:
    return tuple(bound.arguments[name] for name in COLUMN_ARGUMENTS if name in bound.arguments)


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
