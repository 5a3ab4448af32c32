"""Odds ratio and risk ratio of two independent proportions with textbook intervals on the log scale.

Where a cell is 0 these do not exist, and the score interval takes their place.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pytest_crucible.records import Interval
from pytest_crucible.stats.arrays import check_counts, check_share
from pytest_crucible.stats.proportions.score_ratios import odds_ratio_score, risk_ratio_score
from pytest_crucible.stats.results import Effect
from pytest_crucible.stats.tails import normal_interval


def odds_ratio(x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95, haldane: bool = False) -> Effect:
    """Return the sample odds ratio with Woolf's interval, exp(log(ad / bc) -+ z * sqrt(1/a + 1/b + 1/c + 1/d)).

    Woolf 1955. `haldane` adds half a sample to each of the four cells (Haldane 1956; R: effectsize::oddsratio does
    not). Without it an empty cell makes the ratio 0, infinite or undefined, with the score interval (`odds_ratio_score`).

    >>> effect = odds_ratio(18, 25, 9, 25)
    >>> round(effect.value, 4), round(effect.interval.low, 4), round(effect.interval.high, 4)
    (4.5714, 1.3832, 15.1089)
    """
    _check(x1, n1, x2, n2, level)
    a, b, c, d = (cell + haldane / 2 for cell in (x1, n1 - x1, x2, n2 - x2))
    name = "odds ratio, haldane" if haldane else "odds ratio"
    # One empty cell makes a term of Woolf's standard error infinite.
    if not a * b * c * d:
        return _by_score(name, odds_ratio_score(x1, n1, x2, n2, level=level))
    se = math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)
    return _on_log_scale(name, a * d / (b * c), se, level, "woolf")


def risk_ratio(x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95) -> Effect:
    """Return (x1 / n1) / (x2 / n2) with Katz's interval, exp(log ratio -+ z * sqrt(1/x1 - 1/n1 + 1/x2 - 1/n2)).

    Katz et al. 1978 (Biometrics 34:469). Without successes in an arm the ratio is 0, infinite or undefined; then, and
    when every sample succeeds, the interval is that of `risk_ratio_score`.

    >>> effect = risk_ratio(18, 25, 9, 25)
    >>> round(effect.value, 4), round(effect.interval.low, 4), round(effect.interval.high, 4)
    (2.0, 1.1232, 3.5614)
    """
    _check(x1, n1, x2, n2, level)
    if not x1 * x2:
        return _by_score("risk ratio", risk_ratio_score(x1, n1, x2, n2, level=level))
    ratio, variance = x1 * n2 / (x2 * n1), 1 / x1 - 1 / n1 + 1 / x2 - 1 / n2
    if variance <= 0:
        return _by_score("risk ratio", risk_ratio_score(x1, n1, x2, n2, level=level))
    return _on_log_scale("risk ratio", ratio, math.sqrt(variance), level, "katz")


def _check(x1: int, n1: int, x2: int, n2: int, level: float) -> None:
    check_counts(n1, x1=x1)
    check_counts(n2, x2=x2)
    check_share(level, "level")


def _by_score(name: str, effect: Effect) -> Effect:
    return replace(effect, name=name, note=effect.note or "a cell of the table is 0: the interval is the score one")


def _on_log_scale(name: str, ratio: float, se: float, level: float, method: str) -> Effect:
    logs = normal_interval(math.log(ratio), se, level=level, method=method)
    return Effect(
        name=name,
        value=ratio,
        interval=Interval(low=math.exp(logs.low), high=math.exp(logs.high), level=level, method=method),
    )
