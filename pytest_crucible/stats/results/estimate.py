"""The estimate of one arm, with its text."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_crucible.stats.inputs import Kind
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import number, with_interval
from pytest_crucible.stats.results.significance import Status
from pytest_crucible.stats.text import Rows, cluster_suffix, in_clusters, interval_ends, note_rows, table


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
