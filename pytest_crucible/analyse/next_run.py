"""Plan the next run from how much the pairs of this one differ.

The plan has the difference that the same n shows with 80 % power, and the n that would decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric, limits_to_clear, prepare, row_of
from pytest_crucible.measures.row import Difference, Flags
from pytest_crucible.records import Contrast
from pytest_crucible.stats.planning.next_sample import (
    detectable_by_error,
    detectable_paired_change,
    samples_by_bound,
    samples_by_evidence,
    samples_for_paired_change,
    samples_for_paired_margin,
    samples_to_clear,
    share_power,
)
from pytest_crucible.stats.planning.proof import detectable_by_falls


def detectable_difference(difference: Difference, alpha: float) -> float | None:
    """Return the smallest difference that the same number of pairs shows with 80 % power, given the spread in these data."""
    if difference.n < 2 or (difference.smallest_p or 0.0) > alpha:
        return None
    if difference.detectable is not None:
        return difference.detectable(alpha)
    if difference.deviation is None:
        return None
    if difference.discordance is not None:
        return detectable_paired_change(difference.n, difference.discordance, alpha=alpha)
    se = difference.deviation / math.sqrt(difference.n)
    detectable = detectable_by_error(se, _dof(difference), alpha=alpha) if se else None
    return None if detectable is None or detectable > difference.span else detectable


def samples_to_decide(difference: Difference, contrast: Contrast, *, alpha: float, family_size: int) -> int | None:
    """Return about how many samples settle a comparison with 80 % power, if the estimate is the truth.

    More than the samples that there are, if these have not settled it.
    """
    if not difference.value and contrast.limit is None:
        return None
    contrast = _claim_to_prove(contrast, difference)
    if contrast.margin is not None and difference.bounds_method == "none":
        # No number of samples gives a bound to a mean without ends.
        return None
    planned = _plan_samples(difference, contrast, alpha=alpha, family_size=family_size)
    if planned is None or planned > difference.n:
        return planned
    # A plan by moments may promise what bounds of few groups, or of rare values, have just not proven.
    return _samples_by_evidence(difference, contrast, alpha=alpha, family_size=family_size) or planned


def _samples_by_evidence(difference: Difference, contrast: Contrast, *, alpha: float, family_size: int) -> int | None:
    """Return the samples that settle a comparison by the evidence that these have; None if they have settled it."""
    value, n = difference.value or 0.0, difference.n
    if contrast.limit is None:
        shared = alpha / family_size
        if difference.p_value is None or difference.p_value <= shared:
            return None
        return samples_by_evidence(n, difference.p_value / 2, alpha=shared / 2)
    needed = []
    for limit in limits_to_clear(contrast, value):
        bound = difference.lower if value > limit else difference.upper
        if bound is not None and math.isfinite(bound) and abs(value - bound) >= abs(value - limit) > 0:
            to_bound = abs(value - bound)
            needed.append(samples_by_bound(n, to_bound, abs(value - limit), alpha=alpha))
    return max(needed, default=None)


def _plan_samples(difference: Difference, contrast: Contrast, *, alpha: float, family_size: int) -> int | None:
    value = difference.value or 0.0
    if difference.samples is not None:
        return _samples_by_row(difference.samples, value, contrast, alpha=alpha, family_size=family_size)
    deviation = difference.deviation or 0.0
    # Yes-or-no pairs that all agree have a floor all the same.
    if not deviation and difference.discordance is None:
        return None
    if contrast.margin is None:
        shared = alpha / family_size
        if difference.discordance is not None:
            return samples_for_paired_change(value, difference.discordance, alpha=shared)
        return samples_to_clear((abs(value),), deviation, dof_share=_dof(difference) / difference.n, alpha=shared / 2)
    # On the scale of the difference, which is logarithmic for a ratio.
    margins = limits_to_clear(contrast, value)
    if difference.discordance is not None:
        needed = samples_for_paired_margin(margins, difference.discordance, difference=value, alpha=alpha)
        # Where all pairs agree the bound is that of no failure, of which the score bound falls short.
        return needed if needed is None or difference.discordance else max(needed, fewest_for_margin(contrast, alpha))
    if difference.samples_past_limit is not None:
        return _samples_past_all(difference.samples_past_limit, value, margins, alpha)
    pseudo = 2 * difference.span**2 if difference.bounds_method.startswith("augmented") else 0.0
    distances = tuple(abs(value - margin) for margin in margins)
    share = _dof(difference) / difference.n
    return samples_to_clear(distances, deviation, dof_share=share, pseudo=pseudo, alpha=alpha)


def _claim_to_prove(contrast: Contrast, difference: Difference) -> Contrast:
    """Return the claim that more samples would settle, if the estimate is the truth.

    Above minus the relevant difference, that the candidate is not worse by it; beyond it, a regression. An improvement is
    decided by its one-sided bound, as with a margin of 0; the absence of one by a regression.
    """
    value = difference.value or 0.0
    if contrast.alternative == "superior" and contrast.margin is None and value > 0:
        return replace(contrast, margin=0.0)
    if contrast.relevant is None or contrast.limit is None:
        return contrast
    if value > -contrast.limit and difference.bounds_method != "none":
        return replace(contrast, alternative="non-inferior", margin=contrast.relevant, relevant=None)
    return replace(contrast, relevant=None, is_relative=False)


def _samples_by_row(
    samples: Callable[[float, float, float], int | None],
    value: float,
    contrast: Contrast,
    *,
    alpha: float,
    family_size: int,
) -> int | None:
    if contrast.limit is None:
        return samples(0.0, alpha / family_size / 2, 0.8)
    return _samples_past_all(samples, value, limits_to_clear(contrast, value), alpha)


def _samples_past_all(
    samples: Callable[[float, float, float], int | None], value: float, limits: tuple[float, ...], alpha: float
) -> int | None:
    """Return the samples whose bounds exclude all of the limits with 80 % power, if the estimate is the truth."""
    distances = [abs(value - limit) for limit in limits]
    if min(distances) == 0:
        return None
    powers = share_power(distances, alpha=alpha)
    by_limit = [samples(limit, alpha, power) for limit, power in zip(limits, powers, strict=True)]
    return None if None in by_limit else max(needed for needed in by_limit if needed is not None)


def fewest_for_margin(contrast: Contrast, alpha: float) -> int:
    """Return the fewest yes-or-no samples that decide a margin if no two replies differ."""
    return stats.samples_for_zero(min(contrast.margin or 0.0, 0.999), alpha=alpha)


def _dof(difference: Difference) -> float:
    return difference.n - 1.0 if difference.dof is None else difference.dof


def detectable_falls(
    difference: Difference,
    contrast: Contrast,
    baseline: Sequence[ScoredMetric],
    attributes: SampleAttributes,
    pairs: Flags,
    alpha: float,
) -> float | None:
    """Return the smallest loss that as many pairs show with 80 % power, if samples fall from the baseline's value to the worst.

    None for yes or no, whose changes are falls already, and without a worst value.
    """
    row = row_of(contrast)
    if not difference.deviation or difference.discordance is not None or not row.is_mean:
        return None
    if row.is_total or difference.ratio or difference.detectable is not None:
        return None
    before = prepare(contrast, baseline, attributes, pairs)
    worst = before.bounds[0 if row.higher_is_better(contrast, baseline[0].facts) else 1]
    # A metric that applies to other replies in each arm has no value to fall from on some samples.
    if not math.isfinite(worst) or np.isnan(before.values).any():
        return None
    # Without a value where the metric does not apply to the baseline's reply.
    falls = np.abs(before.values[np.isfinite(before.values)] - worst)
    if falls.size < 2:
        return None
    return detectable_by_falls(difference.n, difference.deviation, falls, dof=difference.dof, alpha=alpha)
