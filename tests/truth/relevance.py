"""Comparisons with a relevant difference and a known truth: what is proven at the relevant difference, and what is missed.

`python -m benchmarks.calibration` prints the same evaluations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pytest_crucible.gate.decide import AdjustedPValues, decide_comparison, proves_equivalence
from pytest_crucible.measures.row import Prepared
from pytest_crucible.measures.table import comparison_row
from pytest_crucible.records import BoundedValue, Contrast, MetricFacts
from pytest_crucible.stats.resampling.draws import MonteCarlo

ALPHA = 0.05
# With the observed arrangement 1,000, of which alpha is a whole number.
FEW_DRAWS = 999
Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, float], tuple[Floats, Floats]]
"""Values of candidate and baseline whose true difference (of a ratio: of logarithms) is the third argument."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One kind of metric with its relevant difference."""

    draw: Draw
    facts: MetricFacts
    relevant: float
    passage: int = 0
    """Samples of one passage; 0 where samples are independent."""

    @property
    def contrast(self) -> Contrast:
        return Contrast(metric="m", baseline="v1", relevant=self.relevant, is_relative=self.facts.kind == "positive")

    @property
    def limit(self) -> float:
        return self.contrast.limit or 0.0


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of sessions with one comparison, by decision."""

    missed: float
    missed_without: float
    """Without the relevant difference."""
    not_worse: float
    """Met, proven."""
    equivalent: float


def shares(evaluation: Evaluation, n: int, truth: float, replicates: int, seed: int) -> Shares:
    """Return what sessions of n samples decide; `truth` is a multiple of the relevant difference."""
    rng, contrast = np.random.default_rng([seed, n]), evaluation.contrast
    plain = replace(contrast, relevant=None, is_relative=False)
    counts = np.zeros(4)
    for run in range(replicates):
        setting = MonteCarlo(seed=run, draws=FEW_DRAWS, finest=1 / (FEW_DRAWS + 1))
        reading = _reading(evaluation, *evaluation.draw(rng, n, truth * evaluation.limit), setting)
        adjusted = AdjustedPValues(reading.p_value, reading.proof_p, reading.smallest_p)
        state, proven = decide_comparison(contrast, reading, adjusted, alpha=ALPHA)
        before, _ = decide_comparison(plain, reading, adjusted, alpha=ALPHA)
        equivalent = proven and proves_equivalence(contrast, reading)
        counts += (state == "missed", before == "missed", state == "met" and proven, equivalent)
    return Shares(*(counts / replicates))


def _reading(evaluation: Evaluation, candidate: Floats, baseline: Floats, setting: MonteCarlo) -> BoundedValue:
    facts = evaluation.facts
    clusters = np.arange(len(candidate)) // evaluation.passage if evaluation.passage else None
    arms = [
        Prepared(
            values=values,
            kind=facts.kind or "bounded",
            bounds=(facts.low, facts.high),
            clusters=clusters,
            monte_carlo=setting,
        )
        for values in (candidate, baseline)
    ]
    compare = comparison_row(evaluation.contrast, facts).difference
    assert compare is not None
    result = compare(*arms, ALPHA)
    assert result is not None
    alike = result.alikeness
    return BoundedValue(
        value=result.value,
        lower=result.lower,
        upper=result.upper,
        p_value=result.p_value,
        proof_p=result.proof_p if alike else result.p_value,
        smallest_p=alike.smallest if alike else None,
    )


def _yes_or_no(rng: np.random.Generator, n: int, truth: float) -> tuple[Floats, Floats]:
    """The arms differ on 20 % of samples."""
    change = rng.choice([-1.0, 0.0, 1.0], n, p=[(0.2 - truth) / 2, 0.8, (0.2 + truth) / 2])
    baseline = np.where(change == 0, rng.random(n) < 0.8, change < 0).astype(float)
    return baseline + change, baseline


def _scores(rng: np.random.Generator, n: int, truth: float) -> tuple[Floats, Floats]:
    baseline = rng.uniform(0.35, 0.65, n)
    return baseline + truth + rng.uniform(-0.2, 0.2, n), baseline


def _disasters(rng: np.random.Generator, n: int, truth: float) -> tuple[Floats, Floats]:
    """One arm loses .6 to 1 on a few samples; where nothing differs, both do."""
    worse, other = (np.where(rng.random(n) < share, rng.uniform(0.6, 1.0, n), 0.0) for share in _loss_rates(truth))
    return (1 - worse, 1 - other) if truth <= 0 else (1 - other, 1 - worse)


def _loss_rates(truth: float) -> tuple[float, float]:
    return (abs(truth) / 0.8, 0.0) if truth else (0.05, 0.05)


def _passages(rng: np.random.Generator, n: int, truth: float) -> tuple[Floats, Floats]:
    baseline = rng.uniform(0.4, 0.6, n)
    shift = np.repeat(rng.uniform(-0.15, 0.15, n // 5), 5)
    return baseline + truth + shift + rng.uniform(-0.1, 0.1, n), baseline


def _amounts(rng: np.random.Generator, n: int, truth: float) -> tuple[Floats, Floats]:
    """More is better: the logarithms of the ratios have a standard deviation of .4."""
    baseline = rng.lognormal(0.0, 0.8, n)
    return baseline * np.exp(rng.normal(truth, 0.4, n)), baseline


_SCORE = MetricFacts(name="m", kind="bounded", low=0.0, high=1.0)
_AMOUNT = MetricFacts(name="m", kind="positive", low=0.0)
RELEVANT = {
    "yes or no, 20 % differ, relevant .05": Evaluation(
        _yes_or_no, MetricFacts(name="m", kind="binary", low=0.0, high=1.0), 0.05
    ),
    "scores, relevant .02": Evaluation(_scores, _SCORE, 0.02),
    "1 in 20 loses .6 to 1, relevant .04": Evaluation(_disasters, _SCORE, 0.04),
    "passages of 5, relevant .04": Evaluation(_passages, _SCORE, 0.04, passage=5),
    "amounts, relevant 10 %": Evaluation(_amounts, _AMOUNT, 0.1),
}
