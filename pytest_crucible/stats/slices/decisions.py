"""Rates of decisions by slice, and their signed differences from a reference slice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from pytest_crucible.stats.arrays import Array

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
    """Return the rates of one slice; samples that lack a decision or an outcome are left out.

    >>> right = np.array([1.0, np.nan])
    >>> decisions = Decisions(selected=np.ones(2), true_positive=right, false_positive=1 - right[::-1], correct=np.array([1, 0]))
    >>> slice_rates("a", decisions).rates["right_if_selected"]
    0.5
    """
    known = decisions.take(decisions.is_known)
    selections = float(known.selected.sum())
    rates = {
        "base_rate": _mean(known.outcome),
        "selected": _mean(known.selected),
        "true_positive": _mean(known.true_positive),
        "false_positive": _mean(known.false_positive),
        # Of repeats each selection counts, so that a sample that is selected in half of them counts half.
        "right_if_selected": float(known.selected @ known.outcome) / selections if selections else None,
        "correct": _mean(known.correct),
    }
    return SliceRates(name=name, n=len(known.selected), rates=rates)


def _mean(values: Array) -> float | None:
    applies = ~np.isnan(values)
    return float(values[applies].mean()) if applies.any() else None


def difference_from(reference: SliceRates, other: SliceRates) -> ReferenceDifference:
    """Return the signed differences of a slice from the reference.

    >>> rates = [SliceRates(name=name, n=9, rates=dict.fromkeys(RATES, rate)) for name, rate in (("a", 0.75), ("b", 0.25))]
    >>> difference_from(*rates).demographic_parity
    -0.5
    """

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
    known = decisions.take(decisions.is_known)
    without, mean = 1 - known.outcome, _mean(known.selected - known.outcome + 1)
    if not mean:
        return None
    terms = known.selected * _entropy((without + 1) / mean) + (1 - known.selected) * _entropy(without / mean)
    return math.fsum(terms.tolist()) / len(terms)


def _entropy(shares: Array) -> Array:
    """Return x log x, which is 0 for 0."""
    return -entr(shares)
