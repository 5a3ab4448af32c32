"""Exact inference for a 2 x 2 table with fixed margins: Fisher's test and the conditional odds ratio.

With fixed margins the first cell is hypergeometric, with weights tilted by the odds ratio: P(k) ~ w_k * ratio^k. Tests
and limits are computed from the logarithms of these weights. Rows are arms, the first column counts successes.
scipy.stats.contingency.odds_ratio finds its limits to an absolute 1e-13, which is too coarse for small ratios.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np
from scipy.special import gammaln

from pytest_crucible.records import Interval
from pytest_crucible.stats.arrays import Alternative, Array, Side, check_alternative, check_choice, check_share
from pytest_crucible.stats.proportions.binomial import TIES, TwoSided, describe_contradiction
from pytest_crucible.stats.results import Effect, Significance
from pytest_crucible.stats.tails import tail_share

Table = Sequence[Sequence[int]]

CONVERGED = 1e-9
"""Newton's method squares its error: after a step this small the root is exact in double precision."""


def fisher_exact(
    table: Table,
    *,
    alternative: Alternative = "two-sided",
    two_sided: TwoSided = "likelihood",
    mid_p: bool = False,
    level: float = 0.95,
) -> Significance:
    """Return Fisher's exact test of "the odds ratio is 1"; R: fisher.test(table, alternative).

    The two-sided p-value sums the tables that are not more likely than the observed one; `central` doubles the smaller
    tail. `mid_p` counts tables that are as extreme as the observed one by half (Lancaster 1961), which removes most of
    the conservatism. The estimate is the conditional odds ratio. Its interval inverts the one-sided and central tests
    that are not mid-p; other p-values may contradict it, and the note then says so. With a margin of 0, p is 1 and the odds
    ratio undefined.

    >>> round(fisher_exact([[18, 7], [9, 16]]).p_value, 6)
    0.022241
    """
    check_alternative(alternative)
    check_choice(two_sided, get_args(TwoSided), "two_sided")
    cells = _check_table(table)
    hypergeometric = _Hypergeometric(*cells)
    p_value = hypergeometric.p_value(alternative, two_sided, mid_p)
    odds = conditional_odds_ratio(table, level=level, alternative=alternative)
    sides = f"two-sided by {two_sided}" if alternative == "two-sided" else alternative
    return Significance(
        method=f"fisher {'mid-p' if mid_p else 'exact'}, {sides}",
        statistic=None,
        p_value=p_value,
        estimate=odds.value,
        interval=odds.interval,
        n=(cells[0] + cells[1], cells[2] + cells[3]),
        status="degenerate" if hypergeometric.is_certain else "ok",
        note=odds.note or describe_contradiction(p_value, odds.interval, null=1.0),
    )


def conditional_odds_ratio(table: Table, *, level: float = 0.95, alternative: Alternative = "two-sided") -> Effect:
    """Return the maximum likelihood odds ratio given the margins, with exact limits.

    R: fisher.test(table)$estimate and $conf.int; R's root search gives 3 to 5 digits of the limits. The ratio is 0 or
    infinite when the first cell is as small or large as the margins allow. It is None when a margin is 0, with the limits
    0 and infinity.

    >>> effect = conditional_odds_ratio([[18, 7], [9, 16]])
    >>> round(effect.value, 6), round(effect.interval.low, 6), round(effect.interval.high, 5)
    (4.421563, 1.200128, 18.02678)
    """
    check_share(level, "level")
    hypergeometric = _Hypergeometric(*_check_table(table))
    alpha = tail_share(1 - level, alternative)
    low = hypergeometric.limit(alpha, "lower") if alternative != "less" else 0.0
    high = hypergeometric.limit(alpha, "upper") if alternative != "greater" else math.inf
    return Effect(
        name="conditional odds ratio",
        value=hypergeometric.most_likely,
        interval=Interval(low=low, high=high, level=level, method="fisher exact"),
        note="a margin of the table is 0: it says nothing about the odds" if hypergeometric.is_certain else "",
    )


def _check_table(table: Table) -> tuple[int, int, int, int]:
    shape = [len(row) for row in table]
    if shape != [2, 2]:
        raise ValueError(f"expected a table of 2 x 2 counts, not rows of the lengths {shape}")
    cells = [cell for row in table for cell in row]
    strange = [cell for cell in cells if not (cell >= 0 and cell == int(cell))]
    if strange:
        raise ValueError(f"{len(strange)} of 4 cells are not counts, first {strange[0]!r}")
    a, b, c, d = (int(cell) for cell in cells)
    return a, b, c, d


@dataclass(frozen=True)
class _Hypergeometric:
    """The distribution of the first cell `a`, given the margins of a | b over c | d."""

    a: int
    b: int
    c: int
    d: int

    @cached_property
    def cells(self) -> Array:
        """All possible values of the first cell."""
        first = max(0, self.a - self.d)
        return np.arange(first, min(self.a + self.b, self.a + self.c) + 1, dtype=np.float64)

    @cached_property
    def log_weights(self) -> Array:
        """The logarithms of w_k at an odds ratio of 1, up to a constant."""
        k, row, column = self.cells, self.a + self.b, self.a + self.c
        rest = self.d - self.a
        return np.asarray(
            -gammaln(k + 1) - gammaln(row - k + 1) - gammaln(column - k + 1) - gammaln(rest + k + 1), dtype=np.float64
        )

    @property
    def is_certain(self) -> bool:
        return self.cells.size == 1

    def p_value(self, alternative: Alternative, two_sided: TwoSided, mid_p: bool) -> float:
        weights = self._probabilities(0.0)
        observed = weights[self._position]
        at_least, at_most = float(weights[self._position :].sum()), float(weights[: self._position + 1].sum())
        if alternative == "two-sided" and two_sided == "likelihood":
            # Tables of equal probability can differ in their last bits; R uses the same relative tolerance.
            ties = float(weights[(weights <= observed * TIES) & (weights >= observed / TIES)].sum())
            p_value = float(weights[weights <= observed * TIES].sum()) - (ties / 2 if mid_p else 0.0)
        else:
            half = float(observed) / 2 if mid_p else 0.0
            tails = {"greater": at_least - half, "less": at_most - half}
            p_value = tails[alternative] if alternative != "two-sided" else 2 * min(tails.values())
        return min(p_value, 1.0)

    @cached_property
    def most_likely(self) -> float | None:
        """The odds ratio for which the expected first cell equals the observed one."""
        if self.is_certain:
            return None
        if self.a in (self.cells[0], self.cells[-1]):
            return 0.0 if self.a == self.cells[0] else math.inf
        log_ratio = self._start
        # Newton needs about five steps; the limit only guards against an endless loop.
        for _ in range(200):
            probabilities = self._probabilities(log_ratio)
            mean = float(probabilities @ self.cells)
            variance = float(probabilities @ (self.cells - mean) ** 2)
            # A step of more than 1 leaves the region in which the mean is nearly linear.
            step = min(max((self.a - mean) / variance, -1.0), 1.0)
            log_ratio += step
            if abs(step) < CONVERGED:
                break
        return math.exp(log_ratio)

    def limit(self, alpha: float, side: Side) -> float:
        """Return the odds ratio at which the tail from the observed first cell on has the probability alpha."""
        if side == "upper":
            # Exchanging the rows inverts the odds ratio.
            lowest = _Hypergeometric(self.c, self.d, self.a, self.b).limit(alpha, "lower")
            return 1 / lowest if lowest else math.inf
        if self.a == self.cells[0]:
            return 0.0
        log_ratio = self._start
        # The tail's logarithm is concave: after one step, Newton's method comes up from below and never overshoots.
        for _ in range(200):
            log_all, mean = self._log_sum_and_mean(log_ratio, 0)
            log_tail, mean_of_tail = self._log_sum_and_mean(log_ratio, self._position)
            step = (math.log(alpha) - (log_tail - log_all)) / (mean_of_tail - mean)
            log_ratio += step
            if abs(step) < CONVERGED:
                break
        return math.exp(log_ratio)

    @property
    def _position(self) -> int:
        return int(self.a - self.cells[0])

    @property
    def _start(self) -> float:
        return math.log((self.a + 0.5) * (self.d + 0.5) / ((self.b + 0.5) * (self.c + 0.5)))

    def _log_sum_and_mean(self, log_ratio: float, first: int) -> tuple[float, float]:
        """Return the log of the sum of the tilted weights from position `first` on, and the mean cell among them."""
        exponents = self.log_weights[first:] + self.cells[first:] * log_ratio
        largest = float(exponents.max())
        weights = np.exp(exponents - largest)
        total = float(weights.sum())
        return largest + math.log(total), float(weights @ self.cells[first:]) / total

    def _probabilities(self, log_ratio: float) -> Array:
        exponents = self.log_weights + self.cells * log_ratio
        weights = np.exp(exponents - exponents.max())
        return np.asarray(weights / weights.sum(), dtype=np.float64)
