"""Assumed differences of bounded scores, for a run that has no data yet."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy
from scipy.special import ndtri

from pytest_crucible import stats
from pytest_crucible.measures.table import comparison_row
from pytest_crucible.records import FEWEST_LEVELS, Contrast, DetectableEffect, MetricFacts, Plan
from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.factors.sources import LevelMeans, bound_distance
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.planning.roots import rising_root

# Enough quantiles that a planned size hardly depends on their number.
SCORES = 200
# Quantiles of the normal distribution, which represent a sample of any size.
NORMAL: Array = np.asarray(ndtri((np.arange(SCORES) + 0.5) / SCORES))


def assumed_differences(deviation: float, span: float) -> Array:
    """Return normal differences of scores, or of groups, with this standard deviation, clipped at both ends.

    >>> differences = assumed_differences(0.25, 1.0)
    >>> differences.size, round(float(differences.std()), 3)
    (200, 0.249)
    """
    return np.clip(deviation * NORMAL, -span, span)


# Assumed standard deviation of the difference of two arms between levels of a factor, as a share of the metric's range. A
# choice, not a measurement: the middle of the 0, 2 and 4 points for which docs/explanation/noise.md has the error rates.
FACTOR_DEVIATION = 0.02


def factor_levels(plan: Plan) -> list[tuple[str, int]]:
    """Return (factor, levels) of each random factor; trainings once for each arm that has several."""
    shared = [(name, getattr(plan.draws(0), name)) for name in plan.random_factors if name != "trainings"]
    own = (
        [plan.draws(number).trainings for number in range(len(plan.arms))] if "trainings" in plan.random_factors else []
    )
    return [*shared, *(("trainings", levels) for levels in own if levels > 1)]


def effect_over_factors(
    contrast: Contrast, facts: MetricFacts, plan: Plan, *, deviation: float, n: int, alpha: float, level: float
) -> DetectableEffect:
    """Return the difference that a comparison of means can show when its interval counts every random factor.

    `deviation` is that of the differences of `n` samples or groups. Bounds over samples and levels decide an improvement or a
    margin at `alpha`, and a two-sided test at `level` everything else.
    """
    levels, span = factor_levels(plan), facts.largest_change
    reason = _unprovable(contrast, facts, levels)
    if reason or n < 2:
        return DetectableEffect(contrast=contrast, unprovable=reason)
    sources = [stats.Source(name="samples", levels=n, dof=n - 1.0, variance=deviation**2 / n)]
    sources += [
        stats.Source(name=name, levels=count, dof=count - 1.0, variance=(FACTOR_DEVIATION * span) ** 2 / count)
        for name, count in levels
    ]
    if contrast.alternative == "superior":
        return _of_improvement(contrast, sources, span, alpha, levels)
    if contrast.limit is None:
        return DetectableEffect(contrast=contrast, detectable=_detectable(sources, span, level))
    needed = _samples_needed(contrast, sources, deviation, span, alpha, level)
    kind = "relevant difference" if contrast.margin is None else "margin"
    few = f"{_text(levels)} are too few for a {kind} of {contrast.limit_text}, however many samples there are"
    if contrast.relevant is None:
        return DetectableEffect(contrast=contrast, needed=needed, unprovable=few if needed is None else "")
    if needed is None:
        return DetectableEffect(contrast=contrast, unprovable=few)
    return DetectableEffect(contrast=contrast, needed=needed, detectable=_detectable(sources, span, level))


def _detectable(sources: Sequence[stats.Source], span: float, level: float) -> float | None:
    detectable = stats.detectable_over_sources(sources, alpha=level, measured=False)
    return None if detectable is None or detectable > span else detectable


def _of_improvement(
    contrast: Contrast, sources: Sequence[stats.Source], span: float, alpha: float, levels: list[tuple[str, int]]
) -> DetectableEffect:
    """Return the improvement whose bound over samples and levels passes the margin, or 0 without one."""
    margin = contrast.limit or 0.0
    by_samples = stats.detectable_over_sources(sources[:1], alpha=2 * alpha, measured=False) or 0.0

    def excess(effect: float) -> float:
        return effect - margin - math.hypot(by_samples, _distance_of_levels(sources, effect, span, alpha))

    if excess(span) <= 0:
        return DetectableEffect(
            contrast=contrast, unprovable=f"{_text(levels)} are too few to prove an improvement of others like them"
        )
    return DetectableEffect(contrast=contrast, detectable=rising_root(excess, 0.0, most=span))


def _distance_of_levels(sources: Sequence[stats.Source], effect: float, span: float, alpha: float) -> float:
    """Return how far the bound over the assumed levels of all factors lies from the effect."""
    ends = (-span, span)
    parts = []
    for source in sources[1:]:
        shares = (np.arange(source.levels) + 0.5) / source.levels
        values = effect + FACTOR_DEVIATION * span * scipy.special.ndtri(shares)
        # Trainings of one arm have half of the range of a difference: those of the middle, as no more is known.
        own = (effect - span / 2, effect + span / 2) if source.name == "trainings" else None
        parts.append(LevelMeans(values=values, ends=own))
    return bound_distance(parts, "lower", alpha, ends)


def _samples_needed(
    contrast: Contrast, sources: Sequence[stats.Source], deviation: float, span: float, alpha: float, level: float
) -> int | None:
    """Return the samples that prove the margin, or resolve the relevant difference: detect it, and prove equal arms equivalent."""
    amount = contrast.limit or 0.0
    # Equivalence is proven by both bounds: each may fail in half of the 20 % that are left.
    power = 0.9 if contrast.alternative == "equivalent" or contrast.relevant is not None else 0.8
    room = amount**2 - _distance_of_levels(sources, 0.0, span, alpha) ** 2
    if room <= 0:
        return None
    proves = stats.samples_by_gaffke(
        assumed_differences(deviation, span), null=-math.sqrt(room), end=-span, alpha=alpha, power=power
    )
    if contrast.relevant is None or proves is None:
        return proves
    detects = stats.samples_over_sources(sources, amount, alpha=level / 2, measured=False)
    return None if detects is None else max(detects, proves)


def assumed_noise(plan: Plan, facts: MetricFacts) -> str:
    """Return the assumption about the factors, such as `their difference has a standard deviation of 2 points between rounds`."""
    names = " and between ".join(dict.fromkeys(name for name, _ in factor_levels(plan)))
    size = FACTOR_DEVIATION * facts.largest_change
    amount = f"{size * 100:g} points" if facts.kind in (None, "binary") else f"{size:.2g}"
    return f"their difference has a standard deviation of {amount} between {names}"


def _unprovable(contrast: Contrast, facts: MetricFacts, levels: list[tuple[str, int]]) -> str:
    row = comparison_row(contrast, facts)
    if not row.counts_factors:
        names = " and ".join(dict.fromkeys(name for name, _ in levels))
        return f"a {row.title} has no interval that counts {names}"
    few = [(name, count) for name, count in levels if count < FEWEST_LEVELS]
    return f"no verdict with {_text(few)}" if few else ""


def _text(levels: list[tuple[str, int]]) -> str:
    """Return `5 prompts and 3 rounds`."""
    return " and ".join(dict.fromkeys(quantity(count, name.removesuffix("s")) for name, count in levels))
