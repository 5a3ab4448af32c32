"""Rates of decisions by slice, and their signed differences from a reference slice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pytest_crucible.stats.arrays import Array

RATES = ("base_rate", "selected", "true_positive", "false_positive", "right_if_selected", "correct")


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


def slice_rates(name: str, selected: Array, outcome: Array) -> SliceRates:
    """Return the rates of one slice, from decisions and outcomes of 0 and 1; samples that lack one are left out.

    >>> slice_rates("a", np.array([1.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0])).rates["true_positive"]
    0.5
    """
    has_decision = ~np.isnan(selected) & ~np.isnan(outcome)
    chosen, deserving = selected[has_decision], outcome[has_decision]
    rates = {
        "base_rate": _mean(deserving),
        "selected": _mean(chosen),
        "true_positive": _mean(chosen[deserving == 1]),
        "false_positive": _mean(chosen[deserving == 0]),
        "right_if_selected": _mean(deserving[chosen == 1]),
        "correct": _mean((chosen == deserving).astype(np.float64)),
    }
    return SliceRates(name=name, n=int(has_decision.sum()), rates=rates)


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None


def difference_from(reference: SliceRates, other: SliceRates) -> ReferenceDifference:
    """Return the signed differences of a slice from the reference.

    >>> rates = [slice_rates(name, np.array([chosen, 0.0]), np.ones(2)) for name, chosen in (("a", 1.0), ("b", 0.0))]
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


def theil_index(selected: Array, outcome: Array) -> float | None:
    """Return Theil's index of the benefits b = decision - outcome + 1 (Speicher et al. 2018, KDD, equation 3).

    0 where all benefit alike; as AIF360's `theil_index`. None without samples, or without any benefit.

    >>> theil_index(np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    0.0
    """
    has_decision = ~np.isnan(selected) & ~np.isnan(outcome)
    benefits = selected[has_decision] - outcome[has_decision] + 1
    mean = _mean(benefits)
    if not mean:
        return None
    shares = benefits / mean
    return math.fsum(share * math.log(share) for share in shares.tolist() if share > 0) / len(shares)
