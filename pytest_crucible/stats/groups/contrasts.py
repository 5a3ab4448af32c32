"""Planned contrasts of several arms: each candidate against the baseline, with Holm's correction.

The contrasts are the result. The omnibus test describes the arms and gates nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import chdtrc

from pytest_crucible.records import Interval
from pytest_crucible.stats.arrays import Array, Range, check_share, finite_groups
from pytest_crucible.stats.groups.anova import Arms, sums_of_squares
from pytest_crucible.stats.groups.pairwise import ContrastResult, all_pairs
from pytest_crucible.stats.groups.repeated import rm_anova
from pytest_crucible.stats.groups.same_samples import friedman
from pytest_crucible.stats.groups.welch import welch_anova
from pytest_crucible.stats.means.student import paired_t
from pytest_crucible.stats.means.two_samples import welch_t
from pytest_crucible.stats.multiplicity.adjust import holm
from pytest_crucible.stats.proportions.paired import count_discordant
from pytest_crucible.stats.proportions.paired_exact import paired_exact_test
from pytest_crucible.stats.proportions.two_exact import two_exact_test
from pytest_crucible.stats.results import Significance

Outcome = Literal["binary", "numeric"]
"""0 and 1, or numbers of any kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyArmsResult:
    """A family of contrasts, and the omnibus test of the same arms."""

    contrasts: tuple[ContrastResult, ...]
    omnibus: Significance
    method: str
    """The test of each contrast."""
    alpha: float

    def __str__(self) -> str:
        return f"{'; '.join(map(str, self.contrasts))}, n={' + '.join(map(str, self.omnibus.n))} ({self.method})"


def compare_arms(
    arms: Arms,
    *,
    paired: bool,
    baseline: int | None = 0,
    kind: Outcome = "numeric",
    bounds: Range | None = None,
    alpha: float = 0.05,
) -> ManyArmsResult:
    """Return every other arm minus the baseline (all pairs when `baseline` is None), with Holm's p-values.

    Paired arms are compared by the paired t test, independent arms by Welch's t, and 0/1 values of either by the exact
    unconditional test. `bounds` of the values give equal differences an interval. In a contrast, `own_interval` has level
    1 - alpha and agrees with `p_value`; `interval` has level 1 - alpha / contrasts (Bonferroni), so that all hold
    together: where it excludes 0, `p_adjusted` is at most alpha, and Holm may reject beyond that. The
    omnibus test is repeated-measures anova by Greenhouse and Geisser, Cochran's Q, Welch's anova, or Pearson's
    chi-squared. Raises ValueError for a baseline that does not exist, unequal pairs, and invalid 0/1 values.

    >>> found = compare_arms([[0.5, 0.4, 0.6, 0.5], [0.7, 0.5, 0.9, 0.6], [0.5, 0.5, 0.5, 0.6]], paired=True)
    >>> [(one.first, one.second, round(one.difference, 3), round(one.p_adjusted, 4)) for one in found.contrasts]
    [(1, 0, 0.175, 0.0707), (2, 0, 0.025, 0.6376)]
    """
    check_share(alpha, "alpha")
    if kind not in ("binary", "numeric"):
        raise ValueError(f"kind must be 'binary' or 'numeric', not {kind!r}")
    arrays = _check_arms(arms, paired, kind)
    pairs = _pairs(len(arrays), baseline)
    test = _Test(arrays, paired, kind, bounds)
    alone = [test.of(pair, 1 - alpha) for pair in pairs]
    # Bonferroni for the intervals: Holm's procedure has no simple simultaneous intervals.
    together = [test.of(pair, 1 - alpha / len(pairs)) for pair in pairs]
    adjusted = holm([result.p_value for result in alone])
    return ManyArmsResult(
        contrasts=tuple(map(_contrast, pairs, alone, together, adjusted)),
        omnibus=_omnibus(arrays, paired, kind),
        method=alone[0].method,
        alpha=alpha,
    )


@dataclass(frozen=True, slots=True)
class _Test:
    """The test of two of the arms."""

    arms: Sequence[Array]
    paired: bool
    kind: Outcome
    bounds: Range | None

    def of(self, pair: tuple[int, int], level: float) -> Significance:
        first, second = self.arms[pair[0]], self.arms[pair[1]]
        if self.kind == "binary":
            return _dependent(first, second, level) if self.paired else _independent(first, second, level)
        if self.paired:
            return paired_t(first, second, level=level, bounds=self.bounds)
        return welch_t(first, second, level=level)


def _check_arms(arms: Arms, paired: bool, kind: Outcome) -> list[Array]:
    arrays = finite_groups(arms)
    sizes = sorted({array.size for array in arrays})
    if paired and len(sizes) > 1:
        raise ValueError(f"paired arms need equal lengths, not {sizes[0]} and {sizes[-1]}")
    every = np.concatenate(arrays)
    graded = int(np.sum((every != 0) & (every != 1))) if kind == "binary" else 0
    if graded:
        raise ValueError(f"{graded} of {every.size} values are neither 0 nor 1")
    return arrays


def _pairs(arms: int, baseline: int | None) -> list[tuple[int, int]]:
    if baseline is None:
        return all_pairs(arms)
    if not 0 <= baseline < arms:
        raise ValueError(f"baseline must be the position of one of {arms} arms, from 0, not {baseline!r}")
    return [(arm, baseline) for arm in range(arms) if arm != baseline]


def _dependent(first: Array, second: Array, level: float) -> Significance:
    return paired_exact_test(*count_discordant(first, second), first.size, level=level)


def _independent(first: Array, second: Array, level: float) -> Significance:
    return two_exact_test(int(first.sum()), first.size, int(second.sum()), second.size, level=level)


def _contrast(
    pair: tuple[int, int], alone: Significance, together: Significance, p_adjusted: float | None
) -> ContrastResult:
    # Every arm has values, so every contrast has an estimate.
    assert alone.estimate is not None
    return ContrastResult(
        first=pair[0],
        second=pair[1],
        difference=alone.estimate,
        statistic=alone.statistic,
        p_value=alone.p_value,
        p_adjusted=p_adjusted,
        dof=alone.dof[0] if alone.dof else None,
        se=alone.se,
        interval=_containing(together.interval, alone.interval),
        own_interval=alone.interval,
        status=alone.status,
        note=alone.note,
    )


def _containing(wide: Interval | None, narrow: Interval | None) -> Interval | None:
    """Return the wide interval, extended to the narrow one: exact intervals of small samples need not be nested."""
    if wide is None or narrow is None:
        return wide
    return replace(wide, low=min(wide.low, narrow.low), high=max(wide.high, narrow.high))


def _omnibus(arms: Sequence[Array], paired: bool, kind: Outcome) -> Significance:
    if not paired:
        return _chi_squared(arms) if kind == "binary" else welch_anova(arms)
    matrix = np.column_stack(arms)
    if kind == "binary":
        return replace(friedman(matrix), method="cochran q")
    anova = rm_anova(matrix)
    shrink = anova.greenhouse_geisser or 1.0
    return Significance(
        method="repeated-measures anova, greenhouse-geisser",
        statistic=anova.statistic,
        p_value=anova.p_greenhouse_geisser,
        dof=(shrink * anova.dof[0], shrink * anova.dof[1]),
        n=(anova.n,),
        status=anova.status,
        note=anova.note,
    )


def _chi_squared(arms: Sequence[Array]) -> Significance:
    """Return Pearson's test of the table arms x outcome; for 0/1 values its statistic is N times eta squared."""
    squares, n = sums_of_squares(arms), tuple(arm.size for arm in arms)
    total, dof = squares.between + squares.within, len(arms) - 1
    statistic = sum(n) * squares.between / total if total else None
    return Significance(
        method="pearson chi-squared",
        statistic=statistic,
        p_value=1.0 if statistic is None else float(chdtrc(dof, statistic)),
        dof=(dof,),
        n=n,
        status="degenerate" if statistic is None else "ok",
        note="all samples of all arms have the same outcome" if statistic is None else "",
    )
