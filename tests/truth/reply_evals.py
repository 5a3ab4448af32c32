"""Rates, percentiles and counts of repeats where the truth is known: how often their bounds and p-values err."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pytest_crucible.measures.row import Column, Observations, Prepared
from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.plan.targets import parse_measure
from pytest_crucible.records import Measure, MetricFacts

ALPHA = 0.05
REPEATS = 5
SECONDS = MetricFacts(name="m", kind="positive", low=0.0, direction="lower")
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReplyEval:
    """Lognormal values of five replies to each sample: replies to one sample correlate, and so do the arms."""

    text: str
    truth: float
    """A share of the replies, or the percentile's own."""
    correlation: float
    loses: bool = False
    """A third of the replies is lost, of some samples many and of others none."""
    shape: float = 1.0
    """The baseline's scale over the candidate's, around the same truth."""
    groups: int = 1
    """Samples that share their group."""

    @property
    def name(self) -> str:
        share = "" if self.text.startswith("p") else f" of {self.truth:g}"
        parts = [f"{self.text}{share}, correlation {self.correlation:g}"]
        parts += ["a third lost"] if self.loses else []
        parts += ["another shape"] if self.shape != 1 else []
        parts += [f"groups of {self.groups}"] if self.groups > 1 else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Errors:
    """The number of runs with a false claim, and of those with a bound."""

    low: int
    """Lower bounds above the truth."""
    high: int
    alarms: int
    """Comparisons of equal arms with p at most alpha."""
    margins: int
    """Comparisons that prove more, or less, than the true difference: one side, the worse one."""
    bounded: int


REPLY_EVALS = (
    ReplyEval("rate(m <= 1)", 0.5, 0.7),
    ReplyEval("rate(m <= 1)", 0.9, 0.7),
    ReplyEval("rate(m <= 1)", 0.9, 0.7, loses=True),
    ReplyEval("count(m <= 1)", 0.95, 0.3),
    ReplyEval("rate(m <= 1)", 0.9, 0.7, groups=4),
    ReplyEval("p50(m)", 0.5, 0.7),
    ReplyEval("p50(m)", 0.5, 0.7, loses=True),
    ReplyEval("p90(m)", 0.9, 0.7),
    ReplyEval("p90(m)", 0.9, 0.95, shape=3.0),
    ReplyEval("p90(m)", 0.9, 0.7, groups=4),
    ReplyEval("p95(m)", 0.95, 0.3),
)
SAMPLES = (30, 100, 300)


def count_errors(case: ReplyEval, samples: int, runs: int, rng: np.random.Generator) -> Errors:
    """Return the errors of some runs whose truth is 1 as a percentile, `known.truth` as a share."""
    measure, low, high, alarms, bounded = parse_measure(case.text, "this"), 0, 0, 0, 0
    row, sides = STATISTICS[measure.statistic], [0, 0]
    for _ in range(runs):
        candidate, baseline = (prepare(measure, *arm) for arm in _draw(case, samples, rng))
        truth = 1.0 if measure.quantile else case.truth * (candidate.size or 1 if row.is_total else 1)
        reading, _ = row.bound(candidate, ALPHA)
        difference = row.difference(candidate, baseline, ALPHA)
        low += reading.lower is not None and reading.lower > truth + 1e-9
        high += reading.upper is not None and reading.upper < truth - 1e-9
        bounded += reading.lower is not None and reading.upper is not None and math.isfinite(reading.upper)
        if difference is not None and difference.p_value is not None:
            alarms += difference.p_value <= ALPHA
            sides[0] += (difference.lower or 0.0) > 0
            sides[1] += (difference.upper or 0.0) < 0
    return Errors(low, high, alarms, max(sides), bounded)


def prepare(measure: Measure, values: Array, clusters: npt.NDArray[np.int64] | None) -> Prepared:
    """Return what the measure's row makes of samples x replies; NaN where a reply is lost."""
    there = ~np.isnan(values)
    column, samples = values[there], np.nonzero(there)[0]
    observations = Observations(
        measure=measure,
        facts=(SECONDS,),
        columns=(Column(column, column, column),),
        lost=np.zeros(column.size, dtype=bool),
        samples=samples,
        clusters=None if clusters is None else clusters[samples],
    )
    return STATISTICS[measure.statistic].prepare(observations, "observed")


def _draw(
    case: ReplyEval, samples: int, rng: np.random.Generator
) -> Iterator[tuple[Array, npt.NDArray[np.int64] | None]]:
    groups = -(-samples // case.groups)
    codes = np.arange(samples) // case.groups
    shared = math.sqrt(case.correlation) * rng.standard_normal((groups, 1))[codes]
    for scale in (1.0, case.shape):
        noise = math.sqrt(1 - case.correlation) * rng.standard_normal((samples, REPEATS))
        values = np.exp(scale * (shared + noise - ndtri(case.truth)))
        if case.loses:
            lost = rng.random((samples, REPEATS)) < rng.random((samples, 1)) * 2 / 3
            lost[:, 0] = False
            values[lost] = np.nan
        yield values, codes if case.groups > 1 else None


def reply_rows(runs: int, seed: int, share: Callable[[int, int], str]) -> Iterator[list[str]]:
    """Yield a row of a table for each evaluation and number of samples. `share` shows a rate of errors."""
    for case in REPLY_EVALS:
        for samples in SAMPLES:
            errors = count_errors(case, samples, runs, np.random.default_rng([seed, samples]))
            rates = [share(count, runs) for count in (errors.low, errors.high, errors.alarms, errors.margins)]
            yield [case.name, f"{samples:,}", *rates, f"{errors.bounded / runs:.3f}"]
