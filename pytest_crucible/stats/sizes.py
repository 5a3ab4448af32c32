"""Which sizes of effect are customary for which kind: one table. The first of a line heads the record.

Sizes whose intervals take samples for independent are left out where there are clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Effect, Estimand, Significance
from pytest_crucible.stats.counts.ratios import ratio_of_totals
from pytest_crucible.stats.declared import Arms, Kind
from pytest_crucible.stats.effects.noncentral import noncentral_t_limits
from pytest_crucible.stats.effects.proportions import proportion_effects
from pytest_crucible.stats.effects.standardized import cohens_dav, cohens_dz, hedges_g
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.means.moments import standard_error
from pytest_crucible.stats.methods import ratios
from pytest_crucible.stats.methods.pairs import differences
from pytest_crucible.stats.observations import Array
from pytest_crucible.stats.proportions.paired import discordant_odds
from pytest_crucible.stats.ranks.superiority import cles, paired_superiority

Size = Callable[[Arms, float], Effect]


def effect_sizes(arms: Arms, level: float, estimand: Estimand = "difference") -> list[Effect]:
    """The sizes of effect of a comparison, the customary one first. One that these data do not carry says why.

    A ratio of geometric means is no size beside the answer where it is the answer.
    """
    design = "two arms" if arms.differences is None else "clustered pairs" if arms.clustered else "pairs"
    if arms.differences is None and arms.clustered:
        alone = _answered(_hedges_g, arms, level)
        return [replace(alone, interval=None, note=alone.note or "no interval is known under clusters")]
    if arms.differences is None and arms.treatment.kind == "binary":
        return _of_two_proportions(arms, level)
    sizes = SIZES[design, arms.treatment.kind]
    return [_answered(size, arms, level) for size in sizes if estimand != "ratio" or size not in _GEOMETRICS]


def _dz(arms: Arms, level: float) -> Effect:
    return cohens_dz(*_values(arms), level=level)


def _dav(arms: Arms, level: float) -> Effect:
    return cohens_dav(*_values(arms), level=level)


def _clustered_dz(arms: Arms, level: float) -> Effect:
    """dz with the noncentral t limits of the cluster-robust t, as many times as its standard error is larger."""
    seen = differences(arms)
    mean = clustered_mean(seen.values, seen.labels)
    deviation = math.sqrt(seen.values.size) * standard_error(seen.values)
    if not deviation or not mean.se or mean.dof < 1:
        return Effect(name="cohen dz", value=None, note="nothing varies between clusters")
    scale = mean.se / deviation
    low, high = noncentral_t_limits(mean.estimate / mean.se, mean.dof, level=level)
    interval = Interval(low=low * scale, high=high * scale, level=level, method="noncentral t, cr2")
    return Effect(name="cohen dz", value=mean.estimate / deviation, interval=interval)


def _hedges_g(arms: Arms, level: float) -> Effect:
    return hedges_g(*_values(arms), level=level)


def _odds(arms: Arms, level: float) -> Effect:
    values = differences(arms).values
    return discordant_odds(int((values > 0).sum()), int((values < 0).sum()), level=level)


def _superiority(arms: Arms, level: float) -> Effect:
    return _as_effect("P(treatment higher) + P(equal) / 2", paired_superiority(*_values(arms), level=level))


def _cles(arms: Arms, level: float) -> Effect:
    return replace(cles(*_values(arms), level=level), name="P(treatment higher) + P(equal) / 2")


def _totals(arms: Arms, level: float) -> Effect:
    found = ratio_of_totals(*_values(arms), clusters=arms.treatment.clusters, level=level)
    return _as_effect("ratio of totals", found)


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


def _answered(size: Size, arms: Arms, level: float) -> Effect:
    try:
        return size(arms, level)
    except (NotEnoughData, ValueError) as refusal:  # ratios refuse values that have none
        return Effect(name=_NAMES.get(size, "cohen dz"), value=None, note=str(refusal))


_NAMES: dict[Size, str] = {
    _odds: "discordant odds ratio",
    _superiority: "P(treatment higher) + P(equal) / 2",
    _cles: "P(treatment higher) + P(equal) / 2",
    _totals: "ratio of totals",
    _dav: "cohen dav",
    _hedges_g: "hedges g",
    **dict.fromkeys(_GEOMETRICS, "ratio of geometric means"),
}


def _of_two_proportions(arms: Arms, level: float) -> list[Effect]:
    ours, theirs = _values(arms)
    h, *others = proportion_effects(int(ours.sum()), ours.size, int(theirs.sum()), theirs.size, level=level)
    return [*others, h]


def _values(arms: Arms) -> tuple[Array, Array]:
    return arms.treatment.values, arms.control.values


def _as_effect(name: str, found: Significance) -> Effect:
    value = found.estimate if found.estimate is not None and math.isfinite(found.estimate) else None
    return Effect(name=name, value=value, interval=found.interval, note=found.note)
