"""Tests of memorisation from log-probabilities: the order of a dataset, and the least probable tokens of its texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible.stats.interval import NotEnoughData

LOWEST = 0.2
"""Share of the tokens that min-K% averages over, as Shi et al. (2024) recommend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTest:
    """The comparison of a dataset's own order with random orders."""

    p_value: float
    own: float
    """Log-probability of the dataset in its own order."""
    others: tuple[float, ...]
    """Log-probability of the dataset in each random order."""

    @property
    def gain(self) -> float:
        """The excess of the log-probability of the own order over the mean of the others, in nats."""
        return self.own - float(np.mean(self.others))


def order_test(own: float, others: Sequence[float]) -> OrderTest:
    """Return the exact permutation test of Oren et al. (2024), section 3: p = (1 + orders as probable) / (1 + orders).

    For a dataset that a model was not trained on, all orders are equally probable a priori, so that P(p <= a) <= a for every a.

    >>> order_test(-10.0, [-11.0, -12.0, -13.0]).p_value
    0.25
    """
    if not others:
        raise NotEnoughData("the order test needs at least 1 random order")
    as_probable = sum(other >= own for other in others)
    return OrderTest(p_value=(1 + as_probable) / (1 + len(others)), own=own, others=tuple(others))


def lowest_mean(logprobs: Sequence[float], share: float = LOWEST) -> float:
    """Return the mean of the least probable tokens' log-probabilities: min-K% prob of Shi et al. (2024), equation 1.

    Raises NotEnoughData for a text without a scored token.

    >>> lowest_mean([-1.0, -2.0, -3.0, -9.0, -0.5])
    -9.0
    """
    if not len(logprobs):
        raise NotEnoughData("min-K% needs a text of at least 2 tokens")
    ordered = np.sort(np.asarray(logprobs, dtype=float))
    return float(ordered[: max(1, int(len(ordered) * share))].mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class MinKTest:
    """The comparison of texts with fresh ones, by how much more probable they are to a candidate than to its base model."""

    p_value: float
    """One-sided Mann-Whitney test."""
    auroc: float
    """The probability that a text gained more than a fresh one; 0.5 without memorisation."""
    n: tuple[int, int]
    means: tuple[float, float]
    """Mean gains of the texts and of the fresh ones, in nats a token."""


def compare_min_k(gains: Sequence[float], fresh: Sequence[float]) -> MinKTest:
    """Return the comparison of min-K% gains (candidate minus base) of texts with those of fresh texts.

    Raises NotEnoughData for fewer than two of either.
    """
    if min(len(gains), len(fresh)) < 2:
        raise NotEnoughData("a comparison needs at least 2 texts and 2 fresh texts")
    # It takes a second to import, and only the commands for memorisation need it.
    from scipy import stats

    result = stats.mannwhitneyu(gains, fresh, alternative="greater")
    return MinKTest(
        p_value=float(result.pvalue),
        auroc=float(result.statistic) / (len(gains) * len(fresh)),
        n=(len(gains), len(fresh)),
        means=(float(np.mean(gains)), float(np.mean(fresh))),
    )
