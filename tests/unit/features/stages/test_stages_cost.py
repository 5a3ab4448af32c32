"""Forecasts of the cost of replies, and of runs whose length the scores decide."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.stages.forecasts import (
    Amounts,
    ArmEstimate,
    Forecast,
    add_forecasts,
    add_together,
    ends_early,
    estimate_further,
    predict_total,
    prompt_tokens,
    reply_tokens,
    scale,
    sum_amounts,
    whole_amounts,
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


def arm(tokens: Forecast | None, *, to_send: int = 40, stored: int = 0, basis: str = "") -> ArmEstimate:
    amounts = Amounts(requests=Forecast.of(float(to_send)), tokens=tokens, basis=basis)
    return ArmEstimate(nodeid="t", arm="v2", to_send=to_send, stored=stored, amounts=amounts)


def further(trials, count: int = 10) -> ArmEstimate:
    return estimate_further("t", "tuned", trials, [whole_amounts(trial) or trial.amounts for trial in trials], count)


def test_further_trials_are_as_the_first_ones():
    estimate = further([arm(Forecast(100.0, 90.0, 120.0)) for _ in range(3)])

    assert (estimate.arm, estimate.to_send) == ("tuned: 10 further trials", 400)
    assert estimate.amounts.requests == Forecast.of(400.0)
    assert estimate.amounts.tokens == Forecast(1000.0, 900.0, 1200.0)
    assert estimate.amounts.basis == "each as one of the first 3"


def test_trials_that_differ_leave_doubt():
    tokens = further([arm(Forecast.of(value)) for value in (50.0, 100.0, 150.0)]).amounts.tokens

    assert tokens.value == pytest.approx(1000.0)
    assert tokens.low < 700 < 1300 < tokens.high
    assert further([arm(None), arm(Forecast.of(1.0))]).amounts.tokens is None
    assert further([arm(Forecast.of(1.0))]).amounts.tokens is None


def test_where_the_first_trials_are_stored_further_ones_may_be():
    part = arm(Forecast(50.0, 40.0, 60.0), to_send=20, stored=20)
    estimate = further([part, part])

    assert estimate.amounts.tokens == Forecast(1000.0, 0.0, 1200.0)
    assert estimate.amounts.basis == "each as one of the first 2, or nothing where its replies are stored"


def test_the_tokens_of_a_search_are_inside_in_85_of_100_at_least():
    rng, inside, widths = np.random.default_rng(17), 0, []
    for _ in range(400):
        # A trial's setting changes the length of its replies.
        trials = rng.lognormal(5.0, 0.3, 20)[:, None] * rng.lognormal(0.0, 0.5, (20, 40))
        totals = trials.sum(axis=1)
        forecast = further([arm(Forecast.of(float(total))) for total in totals[:10]]).amounts.tokens
        inside += forecast.low <= totals[10:].sum() <= forecast.high
        widths.append((forecast.high - forecast.low) / forecast.value)

    assert inside / 400 >= 0.85
    assert np.median(widths) < 0.6


def test_a_run_that_may_end_early_takes_at_least_what_it_needs_until_then():
    whole = arm(Forecast(100.0, 80.0, 120.0))

    assert ends_early(whole, 1.0) == whole
    assert ends_early(whole, 0.25).amounts.tokens == Forecast(100.0, 20.0, 120.0)
    # The stored replies may be those of the samples that come first.
    assert ends_early(arm(Forecast(100.0, 80.0, 120.0), stored=40), 0.25).amounts.tokens == Forecast(100.0, 0.0, 120.0)
    assert ends_early(arm(None, to_send=0), 0.25).amounts.tokens is None


def test_arms_that_err_together_leave_more_doubt():
    early = ends_early(arm(Forecast.of(100.0)), 0.1)
    guess = replace(early, amounts=replace(early.amounts, errs_with_others=False))

    assert sum_amounts([early] * 4)["tokens"] == Forecast(400.0, 40.0, 400.0)
    assert sum_amounts([guess] * 4)["tokens"].low == pytest.approx(400.0 - 2 * 90.0)
    assert sum_amounts([early, arm(None)])["tokens"] is None
