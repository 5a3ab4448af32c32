"""Mean scores of sets over their draws, with variances that hold for few draws.

Each set has two variances. Its own one is right where sets vary differently, as when only the whole prompt gets replies that
vary, but two draws are often equal. The smoothed one also has the variance that sets have on average and one more draw, as far
away as any two scores are. Intervals are the wider ones of both (tests/truth/test_attribution_truth.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array

# Draws by which the average variance counts beside the draws of a set.
_SHARED_DRAWS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variances:
    """Variances of the means of sets, with their degrees of freedom."""

    values: Array
    """0 if replies are not random."""
    dof: Array

    def plus(self, other: Variances) -> Variances:
        """Return the variances of a difference of independent means."""
        values = self.values + other.values
        squares = self.values**2 / self.dof + other.values**2 / other.dof
        dof = np.divide(values**2, squares, out=np.full(len(values), np.inf), where=squares > 0)
        return Variances(values=values, dof=dof)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetScores:
    """The score of each set: its mean over the draws, NaN if all are missing."""

    means: Array
    variances: tuple[Variances, ...]
    """Own and smoothed; empty if replies are random and no set has two draws."""
    is_random: bool
    scale: float
    """The largest score, without its sign."""


def average_draws(tables: Sequence[Array], *, is_random: bool) -> SetScores:
    """Return the scores of one arm, or of the first minus the second."""
    first, *rest = (_average_arm(table, is_random=is_random) for table in tables)
    for second in rest:
        pairs = zip(first.variances, second.variances, strict=False)
        first = SetScores(
            means=first.means - second.means,
            variances=tuple(ours.plus(theirs) for ours, theirs in pairs),
            is_random=is_random,
            scale=max(first.scale, second.scale),
        )
    return first


def _average_arm(table: Array, *, is_random: bool) -> SetScores:
    is_scored = ~np.isnan(table)
    counts, filled = is_scored.sum(axis=1), np.where(is_scored, table, 0.0)
    means = np.where(counts > 0, filled.sum(axis=1) / np.maximum(counts, 1), np.nan)
    return SetScores(
        means=means,
        variances=_vary(table, means, counts) if is_random else (_no_variances(len(means)),),
        is_random=is_random,
        scale=float(np.abs(filled).max()),
    )


def _no_variances(sets: int) -> Variances:
    return Variances(values=np.zeros(sets), dof=np.full(sets, np.inf))


def _vary(table: Array, means: Array, counts: Array) -> tuple[Variances, ...]:
    scores = table[~np.isnan(table)]
    freedom = np.maximum(counts - 1.0, 0.0)
    draws = np.maximum(counts, 1)
    if not freedom.any():
        return ()
    if np.isin(scores, (0.0, 1.0)).all():
        # Yes and no: one more draw of each (Agresti & Caffo 2000, Am. Stat. 54:280).
        share = (np.nansum(table, axis=1) + 1) / (counts + 2)
        variance = share * (1 - share) * (counts + 2) / (counts + 1)
        return (Variances(values=variance / draws, dof=counts + 1.0),) * 2
    squares = np.nansum((table - means[:, None]) ** 2, axis=1)
    shared = (squares.sum() + np.ptp(scores) ** 2) / (freedom.sum() + 1)
    dof = freedom + _SHARED_DRAWS
    smoothed = (squares + _SHARED_DRAWS * shared) / dof
    # A single draw has no variance of its own.
    own = np.divide(squares, freedom, out=smoothed.copy(), where=freedom > 0)
    return (
        Variances(values=own / draws, dof=np.where(freedom > 0, freedom, dof)),
        Variances(values=smoothed / draws, dof=dof),
    )
