"""Scores, stated probabilities and decisions as classifiers: curves, thresholds, reliability, and rates by slice.

A text is flagged where its score is at least the threshold. With n benign texts and a threshold above the largest score but k, at
most k of them are false alarms. By the distribution-free tolerance limit (Wilks 1941, Ann. Math. Stat. 12:91) the true rate exceeds
p with probability at most P(Binomial(n, p) <= k), for any distribution of the scores; ties only make it smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes


def roc_points(scores: Array, labels: Array) -> list[tuple[float, float]]:
    """Return the points (false-alarm rate, caught) of all thresholds, from (0, 0) to (1, 1)."""
    right, wrong = _cumulative(scores, labels)
    return [(0.0, 0.0), *zip((wrong / wrong[-1]).tolist(), (right / right[-1]).tolist(), strict=True)]


def precision_recall_points(scores: Array, labels: Array) -> list[tuple[float, float]]:
    """Return the points (recall, precision) of all thresholds."""
    right, wrong = _cumulative(scores, labels)
    return list(zip((right / right[-1]).tolist(), (right / (right + wrong)).tolist(), strict=True))


def _cumulative(scores: Array, labels: Array) -> tuple[Array, Array]:
    """Return, for each different score from the highest down, how many positives and negatives have at least that."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), scores.size - 1)
    return np.cumsum(labels[order])[last], np.cumsum(1 - labels[order])[last]


CONFIDENCE = 0.95
# A threshold that is written with six digits; 0.3 times a million comes out just below 300,000.
_STEPS, _STEP_ROUNDING = 1_000_000, 1e-6


def benign_texts_needed(false_alarms: float, confidence: float = CONFIDENCE) -> int:
    """Return the smallest number of benign texts that can bound a false-alarm rate, without a single false alarm."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - false_alarms))


def smallest_rate(n: int, confidence: float = CONFIDENCE) -> float:
    """Return the smallest false-alarm rate that n benign texts can bound."""
    return float(1 - (1 - confidence) ** (1 / n))


def allowed_alarms(n: int, false_alarms: float, confidence: float = CONFIDENCE) -> int | None:
    """Return how many of n benign texts may be flagged so that the rate is at most `false_alarms`; None if none may."""
    from scipy.special import bdtr

    if bdtr(0, n, false_alarms) > 1 - confidence:
        return None
    low, high = 0, n
    # The largest k with P(Binomial(n, p) <= k) <= 1 - confidence, by bisection.
    while high - low > 1:
        middle = (low + high) // 2
        if bdtr(middle, n, false_alarms) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def choose_threshold(benign: npt.ArrayLike, false_alarms: float, confidence: float = CONFIDENCE) -> float | None:
    """Return the lowest threshold that flags at most the allowed number of benign scores; None if none can be had.

    `benign` are n scores. The threshold is the next multiple of 0.000001 above the (allowed + 1)-th largest of them, and may
    exceed 1.
    """
    scores = np.sort(np.asarray(benign, dtype=np.float64))[::-1]
    allowed = allowed_alarms(scores.size, false_alarms, confidence)
    return None if allowed is None else (math.floor(scores[allowed] * _STEPS + _STEP_ROUNDING) + 1) / _STEPS


# As in the papers that defined the expected calibration error; another number gives another error.
BINS = 10
# A confidence such as 0.1 + 0.2, times 10, comes out just above 3 and would fall into the next bin.
_ROUNDING = 1e-12


def confidence_bins(confidence: Array) -> Codes:
    """Return the number of each confidence's bin, from 0; a confidence of 0 belongs to the first."""
    return np.clip(np.ceil(confidence * BINS - _ROUNDING).astype(np.intp) - 1, 0, BINS - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Samples with about the same stated probability."""

    n: int
    confidence: float
    """Mean of the stated probabilities."""
    rate: float
    """Share of positive outcomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """Stated probabilities of some samples, with their outcomes."""

    n: int
    bins: tuple[Bin, ...]
    ece: float | None
    """Expected calibration error in ten bins of equal width, as the statistic `ece`; None without samples."""
    ece_debiased: float | None
    """The same without the bias of small bins."""
    auroc: float | None
    """None without samples of both outcomes."""


def reliability(confidence: Array, outcome: Array) -> Reliability:
    """Return the reliability of probabilities for outcomes of 0 and 1, one entry a sample.

    >>> reliability(np.array([0.2, 0.2, 0.9]), np.array([0.0, 0.0, 1.0])).auroc
    1.0
    """
    numbers = confidence_bins(confidence)
    there = [numbers == number for number in range(BINS)]
    bins = tuple(
        Bin(n=int(inside.sum()), confidence=float(confidence[inside].mean()), rate=float(outcome[inside].mean()))
        for inside in there
        if inside.any()
    )
    return Reliability(
        n=len(confidence),
        bins=bins,
        ece=_mean_gap(bins, _gap),
        ece_debiased=_mean_gap(bins, _debiased_gap),
        auroc=_auroc(confidence, outcome),
    )


def _mean_gap(bins: Sequence[Bin], gap: Callable[[Bin], float]) -> float | None:
    n = sum(each.n for each in bins)
    return max(0.0, sum(each.n * gap(each) for each in bins) / n) if n else None


def _gap(each: Bin) -> float:
    return abs(each.rate - each.confidence)


def _debiased_gap(each: Bin) -> float:
    """Return |rate - confidence| less its bias, were the rate normal around itself (Kumar, Liang & Ma 2019, section 5).

    A bin of few samples has a gap by chance alone.
    """
    # A session without a fairness section does not load scipy.
    from scipy.special import ndtr

    gap = _gap(each)
    deviation = math.sqrt(each.rate * (1 - each.rate) / each.n)
    if deviation == 0:
        return gap
    ratio = gap / deviation
    folded = deviation * math.sqrt(2 / math.pi) * math.exp(-ratio * ratio / 2) + gap * (1 - 2 * float(ndtr(-ratio)))
    return 2 * gap - folded


def _auroc(confidence: Array, outcome: Array) -> float | None:
    positives = int(outcome.sum())
    negatives = len(outcome) - positives
    if not positives or not negatives:
        return None
    _, inverse, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    midranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    above = float(midranks[outcome == 1].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)


Flags = npt.NDArray[np.bool_]

RATES = ("base_rate", "selected", "true_positive", "false_positive", "right_if_selected", "correct")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The metrics of some decisions, one entry a sample: means over its repeats, NaN where a metric does not apply."""

    selected: Array
    true_positive: Array
    """NaN for a sample that does not expect the favourable answer."""
    false_positive: Array
    correct: Array

    @property
    def outcome(self) -> Array:
        """1 where the favourable answer is expected and 0 where it is not: each of two metrics applies to one of both."""
        negative = np.where(~np.isnan(self.false_positive), 0.0, np.nan)
        return np.where(~np.isnan(self.true_positive), 1.0, negative)

    def take(self, chosen: Flags) -> Decisions:
        return Decisions(
            selected=self.selected[chosen],
            true_positive=self.true_positive[chosen],
            false_positive=self.false_positive[chosen],
            correct=self.correct[chosen],
        )

    @property
    def is_known(self) -> Flags:
        """Samples with a decision and an outcome."""
        return ~np.isnan(self.selected) & ~np.isnan(self.outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRates:
    """The rates of one slice. One without a denominator is None: neither 0 nor 1."""

    name: str
    n: int
    rates: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceDifference:
    """A slice minus the reference slice, signed as in AIF360: negative where the slice is less favoured."""

    name: str
    demographic_parity: float | None
    """Selected less often than the reference: below 0."""
    disparate_impact: float | None
    """The ratio of the two selection rates."""
    equal_opportunity: float | None
    average_odds: float | None
    """Mean of the differences of true-positive and false-positive rates."""
    predictive_parity: float | None


def slice_rates(name: str, decisions: Decisions) -> SliceRates:
    """Return the rates of one slice; samples that lack a decision or an outcome are left out."""
    decided = decisions.take(decisions.is_known)
    selections = float(decided.selected.sum())
    rates = {
        "base_rate": _mean(decided.outcome),
        "selected": _mean(decided.selected),
        "true_positive": _mean(decided.true_positive),
        "false_positive": _mean(decided.false_positive),
        # Of repeats each selection counts, so that a sample that is selected in half of them counts half.
        "right_if_selected": float(decided.selected @ decided.outcome) / selections if selections else None,
        "correct": _mean(decided.correct),
    }
    return SliceRates(name=name, n=len(decided.selected), rates=rates)


def _mean(values: Array) -> float | None:
    applies = ~np.isnan(values)
    return float(values[applies].mean()) if applies.any() else None


def difference_from(reference: SliceRates, other: SliceRates) -> ReferenceDifference:
    """Return the signed differences of a slice from the reference."""

    def minus(rate: str) -> float | None:
        ours, theirs = other.rates[rate], reference.rates[rate]
        return None if ours is None or theirs is None else ours - theirs

    odds = minus("true_positive"), minus("false_positive")
    selected = other.rates["selected"], reference.rates["selected"]
    return ReferenceDifference(
        name=other.name,
        demographic_parity=minus("selected"),
        disparate_impact=None if selected[0] is None or not selected[1] else selected[0] / selected[1],
        equal_opportunity=odds[0],
        average_odds=None if odds[0] is None or odds[1] is None else (odds[0] + odds[1]) / 2,
        predictive_parity=minus("right_if_selected"),
    )


def theil_index(decisions: Decisions) -> float | None:
    """Return Theil's index of the benefits b = decision - outcome + 1 (Speicher et al. 2018, KDD, equation 3).

    0 where all benefit alike; as AIF360's `theil_index`. Each repeat is a decision. None without samples, or without any benefit.
    """
    decided = decisions.take(decisions.is_known)
    without, mean = 1 - decided.outcome, _mean(decided.selected - decided.outcome + 1)
    if not mean:
        return None
    terms = decided.selected * _entropy((without + 1) / mean) + (1 - decided.selected) * _entropy(without / mean)
    return math.fsum(terms.tolist()) / len(terms)


def _entropy(shares: Array) -> Array:
    """Return x log x, which is 0 for 0."""
    from scipy.special import entr

    return -entr(shares)
