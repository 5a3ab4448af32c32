"""Effect sizes of two independent proportions: Cohen's h, odds ratio and risk ratio."""

from __future__ import annotations

import math
from dataclasses import replace

from pytest_crucible.stats.arrays import check_counts, check_share
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.proportions.one import wilson_interval
from pytest_crucible.stats.proportions.score_ratios import odds_ratio_score, risk_ratio_score
from pytest_crucible.stats.results import Effect


def cohens_h(rate1: float, rate2: float) -> float:
    """Return Cohen's h = 2 asin(sqrt(rate1)) - 2 asin(sqrt(rate2)), between -pi and pi.

    R: pwr::ES.h(rate1, rate2).

    >>> round(cohens_h(0.8, 0.65), 6)
    0.338808
    """
    for rate in (rate1, rate2):
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"a proportion must lie between 0 and 1, not {rate!r}")
    return _angle(rate1) - _angle(rate2)


def cohens_h_effect(x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95) -> Effect:
    """Return Cohen's h of two samples with its interval.

    The interval squares and adds the distances of both Wilson intervals, as angles: Newcombe's construction for a
    difference (Zou & Donner 2008, SiM 27:1693). None for an empty arm.

    >>> effect = cohens_h_effect(56, 70, 48, 80)
    >>> round(effect.value, 4), round(effect.interval.low, 4), round(effect.interval.high, 4)
    (0.4421, 0.1152, 0.7469)
    """
    check_counts(n1, x1=x1)
    check_counts(n2, x2=x2)
    check_share(level, "level")
    if not (n1 and n2):
        return Effect(name="cohens h", value=None, note="an arm without values cannot be compared")
    first, second = wilson_interval(x1, n1, level=level), wilson_interval(x2, n2, level=level)
    angle1, angle2 = _angle(x1 / n1), _angle(x2 / n2)
    # The lower end moves the first arm down and the second up; the upper end does the reverse.
    below = math.hypot(angle1 - _angle(first.low), _angle(second.high) - angle2)
    above = math.hypot(_angle(first.high) - angle1, angle2 - _angle(second.low))
    value = angle1 - angle2
    interval = Interval(low=value - below, high=value + above, level=level, method="wilson, square-and-add")
    return Effect(name="cohens h", value=value, interval=interval)


def proportion_effects(x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95) -> tuple[Effect, ...]:
    """Return Cohen's h, and the odds and risk ratio with their score intervals, for `compare_proportions`.

    Both intervals exclude 1 exactly when the p-value of `compare_proportions` is below 1 - level. The interval of
    `cohens_h_effect` has no such tie to it and is left out.

    >>> for effect in proportion_effects(56, 70, 48, 80):
    ...     print(effect.name, round(effect.value, 2))
    cohens h 0.44
    odds ratio 2.67
    risk ratio 1.33
    """
    h = cohens_h_effect(x1, n1, x2, n2, level=level)
    return (
        replace(h, interval=None),
        odds_ratio_score(x1, n1, x2, n2, level=level),
        risk_ratio_score(x1, n1, x2, n2, level=level),
    )


def _angle(rate: float) -> float:
    return 2 * math.asin(math.sqrt(min(max(rate, 0.0), 1.0)))
