"""The amount spent for each success, as a row of the table of statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_crucible.features.agents import per_success
from pytest_crucible.measures.row import Column, Observations
from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.plan.targets import parse_measure, parse_target
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import SpecError

COST = MetricFacts(name="cost_usd", kind="positive", low=0.0, high=math.inf, direction="lower")
SOLVED = MetricFacts(name="solved", kind="binary", low=0.0, high=1.0)
TARGET = parse_target("per_success(cost_usd, solved) <= 3")
ROW = STATISTICS["per_success"]


def observe(costs, solved, *, high=math.inf, clusters=None):
    costs, solved = np.array(costs, dtype=float), np.array(solved, dtype=float)
    lost = np.isnan(costs) | np.isnan(solved)
    columns = (
        Column(values=costs, low=np.nan_to_num(costs, nan=0.0), high=np.nan_to_num(costs, nan=high)),
        Column(values=solved, low=np.nan_to_num(solved, nan=0.0), high=np.nan_to_num(solved, nan=1.0)),
    )
    facts = (MetricFacts(name="cost_usd", kind="positive", low=0.0, high=high, direction="lower"), SOLVED)
    return Observations(measure=TARGET, facts=facts, columns=columns, lost=lost, clusters=clusters)


def test_the_estimate_is_the_sum_of_all_amounts_over_the_number_of_successes():
    measured = ROW.estimate(ROW.prepare(observe([1, 2, 3, 4, 2], [1, 0, 1, 1, 1]), "observed"), 0.95)

    assert measured.value == 3.0
    assert measured.interval is not None
    assert measured.interval.low < 3.0 < measured.interval.high


def test_without_a_success_there_is_nothing_to_estimate():
    prepared = ROW.prepare(observe([1, 2, 3], [0, 0, 0]), "observed")

    assert (prepared.problem, ROW.estimate(prepared, 0.95).value) == (
        "no sample succeeded, so that there is no amount per success",
        None,
    )


def test_a_bound_needs_an_upper_end_of_the_amount():
    costs, solved = [1.0, 2.0, 1.5] * 20, [1, 1, 0] * 20

    without, method = ROW.bound(ROW.prepare(observe(costs, solved), "observed"), 0.05)
    bounded, _ = ROW.bound(ROW.prepare(observe(costs, solved, high=5.0), "observed"), 0.05)

    assert (without.lower, without.upper, method) == (None, None, "none")
    assert 0 < bounded.lower < without.value < bounded.upper
    assert ROW.no_proof(TARGET, COST) == (
        "nothing is proven about an amount per success without an upper bound: declare bounds of 'cost_usd'"
    )


def test_lost_values_make_the_ratio_as_low_and_as_high_as_it_can_be():
    observations = observe([1.0, 2.0, np.nan], [1, 1, np.nan], high=10.0)

    low, high = (ROW.prepare(observations, end) for end in ("low", "high"))

    assert (low.values.sum() / low.strata.sum(), high.values.sum() / high.strata.sum()) == (1.0, 6.5)


def test_arms_are_compared_by_the_ratio_of_their_amounts():
    rng = np.random.default_rng(3)
    costs, solved = rng.lognormal(size=200), rng.random(200) < 0.5
    first = ROW.prepare(observe(costs, solved), "observed")
    second = ROW.prepare(observe(2 * costs * rng.lognormal(0.0, 0.2, 200), solved), "observed")

    difference = ROW.difference(first, second, 0.05)

    assert difference is not None
    assert difference.value == pytest.approx(math.log(0.5), abs=0.1)
    assert difference.p_value < 0.001
    assert difference.lower is None
    assert difference.interval.low < difference.value < difference.interval.high
    assert difference.ratio == per_success.RATIO


def test_equal_arms_are_alike():
    costs, solved = np.arange(1.0, 31.0), np.arange(30) % 2
    prepared = ROW.prepare(observe(costs, solved), "observed")

    assert ROW.difference(prepared, prepared, 0.05).p_value == 1.0


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ((COST, COST), "'cost_usd' is not a yes-or-no metric: take one that is, such as per_success(cost_usd, solved)"),
        (
            (MetricFacts(name="gain", kind="bounded", low=-1.0, high=1.0), SOLVED),
            "'gain' may be below 0, and is no amount: take one such as cost_usd or tokens",
        ),
        ((COST, SOLVED), ""),
    ],
)
def test_its_metrics_are_an_amount_and_a_success(facts, sentence):
    assert ROW.check(TARGET, facts) == sentence


def test_it_takes_two_metrics():
    assert parse_measure("per_success(tokens, solved)", "this").further == ("solved",)
    with pytest.raises(SpecError, match="per_success"):
        parse_target("per_success(cost_usd) <= 3")
