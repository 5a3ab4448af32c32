"""Results: effect sizes, bounds, tests and estimates, with their text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import Literal

from pytest_crucible.stats.inputs import Kind
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import number, p_equals, ratio_with_interval, with_interval

Rows = Iterable[tuple[str, str]]


def log_ratio(value: float | None) -> float | None:
    """Return the logarithm; -inf at 0."""
    if value is None:
        return None
    return math.log(value) if value > 0 else -math.inf


def table(title: str, rows: Rows, sentence: str) -> str:
    """Return HTML for a notebook: a caption, a row for each fact, and the sentence beneath."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption><tbody>{body}</tbody></table><p>{escape(sentence)}</p>"


def interval_ends(interval: Interval, show: Callable[[float, Interval], str] = number) -> str:
    low, high = (show(end, interval) for end in (interval.low, interval.high))
    if math.isinf(interval.low):
        return f"up to {high}"
    return f"from {low} upwards" if math.isinf(interval.high) else f"from {low} to {high}"


def in_clusters(clusters: int | None) -> str:
    return "" if clusters is None else f" in {clusters:,} cluster{'s' * (clusters != 1)}"


def cluster_suffix(clusters: int | None) -> str:
    return "" if clusters is None else f" clusters={clusters:,}"


def note_rows(note: str) -> Rows:
    if note:
        yield "note", note


Status = Literal["ok", "degenerate", "insufficient_data", "insufficient_clusters"]
"""degenerate: nothing varies, or the arms are separated, so that only counting arguments apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The size of an effect under its full name, such as "hedges g". `value` is None if it is not defined."""

    name: str
    value: float | None
    interval: Interval | None = None
    note: str = ""

    def __str__(self) -> str:
        show = ratio_with_interval if "ratio" in self.name else with_interval
        return f"{self.name} {show(self.value, self.interval)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alikeness:
    """The result of a permutation test that two arms are alike."""

    method: str
    p_value: float
    smallest: float
    """The smallest p-value that any scores of as many units could have."""
    arrangements: int
    """How many arrangements were compared with the observed one, itself included."""
    exact: bool
    """True if these are all of them; otherwise they are random, by `seed`."""
    seed: int | None
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance:
    """The result of a significance test. Statistic and p-value are None if the data do not define them."""

    method: str
    """The test by name, with its variant: "wilcoxon signed-rank, exact, pratt"."""
    statistic: float | None
    p_value: float | None
    p_exact: float | None = None
    """A p-value of an exact test of the same hypothesis, if there is one in addition to the method's own."""
    proof_p: float | None = None
    """The two-sided p-value of the bounds in `interval`, where `p_value` is of another question."""
    alikeness: Alikeness | None = None
    """The permutation test that `p_value` is of; None for other tests."""
    dof: tuple[float, ...] = ()
    """Degrees of freedom: none, one, or numerator and denominator."""
    estimate: float | None = None
    """The estimate that the interval belongs to; first arm minus second arm where it is a difference."""
    interval: Interval | None = None
    se: float | None = None
    n: tuple[int, ...] = ()
    """Observations in each arm; for pairs one number."""
    effects: tuple[Effect, ...] = ()
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        return _significance_line(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A one-sided bound for a mean; None when the data do not define one, and `note` has the reason."""

    value: float | None
    method: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The two one-sided bounds of a difference, each of which errs in at most a share alpha of experiments."""

    low: float | None
    high: float | None
    method: str
    note: str = ""


def _significance_line(result: Significance) -> str:
    """Return `estimate [interval], statistic 2.1, dof 39, p = 0.042, n=40 (paired t)`, without missing parts."""
    parts = [with_interval(result.estimate, result.interval)] if result.estimate is not None else []
    if result.statistic is not None:
        parts.append(f"statistic {number(result.statistic)}")
    parts += [f"dof {', '.join(f'{dof:.4g}' for dof in result.dof)}"] if result.dof else []
    # A missing part is left out rather than shown as "nan", which reads like a result.
    parts += [] if result.p_value is None else [f"{p_equals(result.p_value)}"]
    parts += [f"n={' + '.join(f'{n:,}' for n in result.n)}"] if result.n else []
    return f"{', '.join(parts) or result.note} ({result.method})"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateResult:
    """The mean of one arm (of 0/1 values: a rate) with its two-sided interval, from `stats.estimate`."""

    estimate: float | None
    """None when there are no values."""
    interval: Interval | None
    n: int
    clusters: int | None
    deviation: float | None
    """Standard deviation; of clustered values sqrt(n) * se, so that power sees the design effect."""
    kind: Kind
    method: str
    alpha: float
    status: Status = "ok"
    note: str = ""
    assumptions: tuple[str, ...] = ()

    @property
    def ci_low(self) -> float | None:
        return None if self.interval is None else self.interval.low

    @property
    def ci_high(self) -> float | None:
        return None if self.interval is None else self.interval.high

    @property
    def sentence(self) -> str:
        """The result in plain English."""
        return _sentence(self)

    def __str__(self) -> str:
        return _line(self)

    def _repr_html_(self) -> str:
        return table(str(self), _rows(self), self.sentence)


def _line(result: EstimateResult) -> str:
    return f"{with_interval(result.estimate, result.interval)} n={result.n:,}{cluster_suffix(result.clusters)} ({result.method})"


def _sentence(result: EstimateResult) -> str:
    # The mean of 0/1 values is called a rate.
    what = "rate" if result.kind == "binary" else "mean"
    if result.estimate is None:
        return f"There are no values, so the {what} is unknown."
    count = f"{result.n:,} sample{'s' * (result.n != 1)}{in_clusters(result.clusters)}"
    sentence = f"The {what} of {count} is {number(result.estimate, result.interval)}"
    if result.interval is None:
        return f"{sentence}; no interval can be given ({result.note})."
    return f"{sentence}, with a {result.interval.level * 100:g} % interval {interval_ends(result.interval)}."


def _rows(result: EstimateResult) -> Rows:
    yield "estimate", with_interval(result.estimate, result.interval)
    yield "n", f"{result.n:,}{cluster_suffix(result.clusters)}"
    yield "method", result.method
    yield from (("assumes", text) for text in result.assumptions)
    yield from note_rows(result.note)
