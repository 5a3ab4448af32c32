"""The forecast of a large run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.backends.spending import Price
from pytest_crucible.features.scale.capacity import STORES, Workload, measured_costs, plan_capacity
from pytest_crucible.records.errors import SpecError

WORKLOAD = Workload(samples=1e6, nodes=4, latency_s=2.0, price=Price(1.0, 2.0))


def test_the_slowest_rate_is_the_bottleneck_and_decides_the_hours():
    forecast = plan_capacity(WORKLOAD, measured_costs())

    assert forecast.bottleneck.name == "concurrency"
    assert forecast.bottleneck.replies_per_second == 4 * 64 / 2
    assert forecast.hours == pytest.approx(2e6 / 128 / 3600)
    assert forecast.cost_usd == pytest.approx(2e6 * (500 * 1.0 + 200 * 2.0) / 1e6)


def test_a_limit_of_the_servers_bounds_all_nodes_together():
    forecast = plan_capacity(replace(WORKLOAD, tokens_per_minute=42_000.0), measured_costs())

    assert (forecast.bottleneck.name, forecast.bottleneck.replies_per_second) == ("limit of tokens", 1.0)


def test_many_nodes_are_bounded_by_the_store_that_they_share():
    forecast = plan_capacity(replace(WORKLOAD, nodes=10_000), measured_costs())

    assert {"store (sqlite)", "CPU of the driver", "network of the driver"} >= {forecast.bottleneck.name}


def test_a_run_without_a_price_has_no_cost():
    assert plan_capacity(replace(WORKLOAD, price=None), measured_costs()).cost_usd is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"samples": 0.0}, "--samples is 0: expected a number above 0"),
        ({"samples": float("nan")}, "--samples is nan: expected a number above 0"),
        ({"nodes": -1}, "--nodes is -1: expected a number above 0"),
        ({"latency_s": float("inf")}, "--latency is inf: expected a number above 0"),
    ],
)
def test_an_impossible_workload_is_one_sentence(change, sentence):
    with pytest.raises(SpecError, match=sentence):
        plan_capacity(replace(WORKLOAD, **change), measured_costs())


@given(st.floats(1, 1e10), st.integers(1, 1000), st.sampled_from(STORES))
def test_more_nodes_never_take_longer(samples, nodes, store):
    few, many = (
        plan_capacity(replace(WORKLOAD, samples=samples, nodes=count, store=store), measured_costs())
        for count in (nodes, 2 * nodes)
    )

    assert many.hours <= few.hours
    assert many.stored_bytes == few.stored_bytes
