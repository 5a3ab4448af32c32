"""Forecasts of what replies will take, from what earlier ones took."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.stages.forecasts import (
    Forecast,
    add_forecasts,
    add_together,
    predict_total,
    prompt_tokens,
    reply_tokens,
    scale,
)

amounts = st.lists(st.floats(0, 1e6), min_size=2, max_size=20)
forecasts = st.builds(
    lambda a, b, c: Forecast(*sorted((a, b, c))[1:2], *sorted((a, b, c))[::2]), *[st.floats(0, 1e6)] * 3
)


@given(amounts, st.integers(0, 1000))
def test_the_forecast_is_the_mean_times_the_replies_and_inside_its_interval(earlier, replies):
    forecast = predict_total(earlier, replies)

    assert forecast.value == pytest.approx(replies * sum(earlier) / len(earlier))
    assert 0 <= forecast.low <= forecast.value * (1 + 1e-12)
    assert forecast.value <= forecast.high


def test_equal_earlier_amounts_leave_no_doubt_and_one_alone_leaves_all():
    assert predict_total([3.0] * 5, 10) == Forecast(30.0, 30.0, 30.0)
    assert predict_total([3.0], 10) is None
    assert predict_total([], 0) == Forecast.of(0.0)


@pytest.mark.parametrize(("earlier", "replies"), [(20, 400), (100, 100), (400, 50)])
@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_the_true_total_is_inside_in_85_of_100_runs_at_least(earlier, replies, spread):
    rng, runs = np.random.default_rng([earlier, replies]), 400
    inside = 0
    for _ in range(runs):
        drawn = rng.lognormal(5.0, spread, earlier + replies)
        forecast = predict_total(drawn[:earlier].tolist(), replies)
        inside += forecast.low <= drawn[earlier:].sum() <= forecast.high

    # With twenty skewed amounts the interval is known to be short.
    assert inside / runs >= (0.79 if (earlier, spread) == (20, 1.0) else 0.85)


@given(st.lists(forecasts, min_size=1, max_size=5))
def test_independent_forecasts_add_up_to_less_doubt_than_those_that_err_together(parts):
    independent, together = add_forecasts(parts), add_together(parts)

    assert independent.value == together.value == pytest.approx(sum(part.value for part in parts))
    assert together.low <= independent.low + 1e-6
    assert independent.high <= together.high + 1e-6


def test_what_is_unknown_is_not_nothing():
    assert add_forecasts([Forecast.of(1.0), None]) is None
    assert add_together([None]) is None
    assert scale(Forecast.of(2.0), None) is None
    assert scale(None, 2.0) is None
    assert reply_tokens(None) is None


def test_what_is_free_costs_nothing_however_much_there_is():
    assert scale(None, 0.0) == Forecast.of(0.0)


def test_a_prompt_has_three_to_five_characters_a_token():
    assert prompt_tokens(60) == Forecast(15.0, 12.0, 20.0)
    assert reply_tokens(100.0) == Forecast(50.0, 0.0, 100.0)
    assert math.isclose(scale(prompt_tokens(60), 2.0).high, 40.0)
