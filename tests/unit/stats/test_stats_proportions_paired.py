"""Paired proportions beyond Tango: intervals that reports use, McNemar's chi-square, discordant odds, Cochran's Q."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.proportions.paired import (
    discordant_odds,
    mcnemar_exact,
)

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])


# -- McNemar ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 200), st.integers(0, 200), LEVELS)
def test_discordant_odds_exclude_1_exactly_when_the_exact_test_rejects(gained, lost, level):
    effect, p_value = discordant_odds(gained, lost, level=level), mcnemar_exact(gained, lost)

    if abs(p_value - (1 - level)) > 1e-12:
        assert (effect.interval.low > 1 or effect.interval.high < 1) == (p_value < 1 - level)
    if effect.value is not None:
        assert effect.interval.low <= effect.value <= effect.interval.high


def test_discordant_odds_without_losses_are_infinite():
    effect = discordant_odds(5, 0)

    assert (effect.value, effect.interval.high) == (math.inf, math.inf)
    assert effect.interval.low == pytest.approx(1 / (0.025**-0.2 - 1))
    assert discordant_odds(0, 5).value == 0.0
