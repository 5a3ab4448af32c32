"""Mean scores of sets over their draws, with variances that hold for few draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible.stats.arrays import Array

# Draws by which the variance of all sets together counts in that of a single set: two draws alone are often equal.
_SHARED_DRAWS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetScores:
    """The score of each set: its mean over the draws, NaN if all are missing."""

    means: Array
    variances: Array
    """Variances of the means; 0 if replies are not random, NaN if no set has two draws."""
    dof: Array
    """Degrees of freedom of the variances."""
    scale: float
    """The largest score, without its sign."""


def average_draws(tables: Sequence[Array], *, is_random: bool) -> SetScores:
    """Return the scores of one arm, or of the first minus the second."""
    arms = [_average_arm(table, is_random=is_random) for table in tables]
    means = arms[0].means - arms[1].means if len(arms) == 2 else arms[0].means
    variances = np.sum([arm.variances for arm in arms], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        dof = variances**2 / np.sum([arm.variances**2 / arm.dof for arm in arms], axis=0)
    return SetScores(
        means=means,
        variances=variances,
        dof=np.where(variances > 0, dof, np.inf),
        scale=max(arm.scale for arm in arms),
    )


def _average_arm(table: Array, *, is_random: bool) -> SetScores:
    is_scored = ~np.isnan(table)
    counts, filled = is_scored.sum(axis=1), np.where(is_scored, table, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(counts > 0, filled.sum(axis=1) / counts, np.nan)
    scale = float(np.abs(filled).max())
    if not is_random:
        return SetScores(means=means, variances=np.zeros(len(means)), dof=np.full(len(means), np.inf), scale=scale)
    squares = np.where(is_scored, (table - means[:, None]) ** 2, 0.0).sum(axis=1)
    freedom = np.maximum(counts - 1.0, 0.0)
    if not freedom.any():
        return SetScores(means=means, variances=np.full(len(means), np.nan), dof=np.ones(len(means)), scale=scale)
    if np.isin(filled[is_scored], (0.0, 1.0)).all():
        # Yes and no: one more draw of each, as Agresti & Caffo (2000, Am. Stat. 54:280).
        share = (filled.sum(axis=1) + 1) / (counts + 2)
        variance, dof = share * (1 - share), counts + 1.0
    else:
        shared = squares.sum() / freedom.sum()
        dof = freedom + _SHARED_DRAWS
        variance = (squares + _SHARED_DRAWS * shared) / dof
    return SetScores(means=means, variances=variance / np.maximum(counts, 1), dof=dof, scale=scale)
