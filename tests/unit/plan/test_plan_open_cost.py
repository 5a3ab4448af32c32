"""Estimates of runs whose length the scores decide: further trials of a search, and experiments that may end early."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_crucible.features.stages.forecasts import (
    Amounts,
    ArmEstimate,
    Forecast,
    ends_early,
    estimate_further,
    sum_amounts,
    whole_amounts,
)


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
