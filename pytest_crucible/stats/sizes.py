"""The table of effect sizes that are customary for each kind. The first in a row is the main one.

Effect sizes whose intervals assume independent samples are left out where there are clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.effects import cohens_dav, cohens_dz, cohens_h, hedges_g, noncentral_t_limits
from pytest_crucible.stats.inputs import Arms, Kind
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means import ratios
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.means.moments import standard_error
from pytest_crucible.stats.means.ratios import ratio_of_totals
from pytest_crucible.stats.proportions.paired import discordant_odds
from pytest_crucible.stats.proportions.score import odds_ratio_score, risk_ratio_score
from pytest_crucible.stats.ranks.superiority import cles, paired_superiority
from pytest_crucible.stats.results import Effect, Estimand, Significance

Size = Callable[[Arms, float], Effect]


def effect_sizes(arms: Arms, level: float, estimand: Estimand = "difference") -> list[Effect]:
    """Return the effect sizes of a comparison, the customary one first. Those without a value have the reason.

    A comparison whose estimand is the ratio of geometric means does not repeat it as an effect size.
    """
    design = "two arms" if arms.differences is None else "clustered pairs" if arms.clustered else "pairs"
    # No interval of a standardised difference is known for independent arms with clusters.
    if arms.differences is None and arms.clustered:
        alone = _try_size(_hedges_g, arms, level)
        return [replace(alone, interval=None, note=alone.note or "no interval is known under clusters")]
    if arms.differences is None and arms.candidate.kind == "binary":
        return _proportion_sizes(arms, level)
    sizes = SIZES[design, arms.candidate.kind]
    return [_try_size(size, arms, level) for size in sizes if estimand != "ratio" or size not in _GEOMETRICS]


def _of_values(effect: Callable[..., Effect]) -> Size:
    return lambda arms, level: effect(*_values(arms), level=level)


_dz, _dav, _hedges_g = map(_of_values, (cohens_dz, cohens_dav, hedges_g))


def _clustered_dz(arms: Arms, level: float) -> Effect:
    """Return dz; its limits are the noncentral t limits of the cluster-robust t, scaled by that standard error."""
    observed = arms.pairs
    mean = clustered_mean(observed.values, observed.labels)
    deviation = math.sqrt(observed.values.size) * standard_error(observed.values)
    # The noncentral t needs at least one degree of freedom.
    if not deviation or not mean.se or mean.dof < 1:
        return Effect(name="cohen dz", value=None, note="nothing varies between clusters")
    scale = mean.se / deviation
    low, high = noncentral_t_limits(mean.estimate / mean.se, mean.dof, level=level)
    interval = Interval(low=low * scale, high=high * scale, level=level, method="noncentral t, cr2")
    return Effect(name="cohen dz", value=mean.estimate / deviation, interval=interval)


def _odds(arms: Arms, level: float) -> Effect:
    values = arms.pairs.values
    return discordant_odds(int((values > 0).sum()), int((values < 0).sum()), level=level)


def _superiority(arms: Arms, level: float) -> Effect:
    return _as_effect("P(candidate higher) + P(equal) / 2", paired_superiority(*_values(arms), level=level))


def _cles(arms: Arms, level: float) -> Effect:
    return replace(cles(*_values(arms), level=level), name="P(candidate higher) + P(equal) / 2")


def _totals(arms: Arms, level: float) -> Effect:
    result = ratio_of_totals(*_values(arms), clusters=arms.candidate.clusters, level=level)
    return _as_effect("ratio of totals", result)


def _geometric(method: Callable[[Arms, float], Significance]) -> Size:
    return lambda arms, level: _as_effect("ratio of geometric means", method(arms, level))


_GEOMETRIC = _geometric(ratios.paired_logs)
_CLUSTERED_GEOMETRIC = _geometric(ratios.clustered_logs)
_WELCH_GEOMETRIC = _geometric(ratios.welch_logs)
_GEOMETRICS = (_GEOMETRIC, _CLUSTERED_GEOMETRIC, _WELCH_GEOMETRIC)

# fmt: off
SIZES: dict[tuple[str, Kind], tuple[Size, ...]] = {
    ("pairs", "binary"):              (_odds,),
    ("pairs", "ordinal"):             (_superiority, _dz, _dav),
    ("pairs", "bounded"):             (_dz, _dav),
    ("pairs", "count"):               (_totals, _dz),
    ("pairs", "positive"):            (_GEOMETRIC, _totals, _dz),
    ("pairs", "unbounded"):           (_dz, _dav),
    ("clustered pairs", "binary"):    (_clustered_dz,),
    ("clustered pairs", "ordinal"):   (_clustered_dz,),
    ("clustered pairs", "bounded"):   (_clustered_dz,),
    ("clustered pairs", "count"):     (_totals, _clustered_dz),
    ("clustered pairs", "positive"):  (_CLUSTERED_GEOMETRIC, _totals, _clustered_dz),
    ("clustered pairs", "unbounded"): (_clustered_dz,),
    ("two arms", "ordinal"):          (_cles, _hedges_g),
    ("two arms", "bounded"):          (_hedges_g,),
    ("two arms", "count"):            (_hedges_g,),
    ("two arms", "positive"):         (_WELCH_GEOMETRIC, _hedges_g),
    ("two arms", "unbounded"):        (_hedges_g,),
}
# fmt: on


def _try_size(size: Size, arms: Arms, level: float) -> Effect:
    try:
        return size(arms, level)
    # Ratios refuse values of 0 and below, standardised differences too few values.
    except (NotEnoughData, ValueError) as refusal:
        return Effect(name=_NAMES.get(size, "cohen dz"), value=None, note=str(refusal))


_NAMES: dict[Size, str] = {
    _odds: "discordant odds ratio",
    _superiority: "P(candidate higher) + P(equal) / 2",
    _cles: "P(candidate higher) + P(equal) / 2",
    _totals: "ratio of totals",
    _dav: "cohen dav",
    _hedges_g: "hedges g",
    **dict.fromkeys(_GEOMETRICS, "ratio of geometric means"),
}


def _proportion_sizes(arms: Arms, level: float) -> list[Effect]:
    candidate, baseline = _values(arms)
    counts = int(candidate.sum()), candidate.size, int(baseline.sum()), baseline.size
    h = Effect(name="cohens h", value=cohens_h(counts[0] / counts[1], counts[2] / counts[3]))
    # Odds and risk ratio come first: their intervals agree with the p-value, and h has none that does.
    return [odds_ratio_score(*counts, level=level), risk_ratio_score(*counts, level=level), h]


def _values(arms: Arms) -> tuple[Array, Array]:
    return arms.candidate.values, arms.baseline.values


def _as_effect(name: str, result: Significance) -> Effect:
    # An infinite ratio does not count as an effect size; its interval still has a finite end.
    value = result.estimate if result.estimate is not None and math.isfinite(result.estimate) else None
    return Effect(name=name, value=value, interval=result.interval, note=result.note)
