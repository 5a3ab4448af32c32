"""Usage of an arm, from the events of its requests."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records import Arm, ArmEvents, EventCount, Fingerprint, Plan
from pytest_crucible.sections import usage as section
from pytest_crucible.sections.inputs import NoStoredDetails, SectionInputs
from pytest_crucible.sections.usage import SHARES, summarize_usage
from pytest_crucible.stats import quantile_interval

SECONDS = st.floats(0, 1e6)


def count(name: str, n: int = 1, error: str | None = None, **times) -> EventCount:
    return EventCount(name=name, error=error, n=n, **times)


def over(n: int, error: str | None = None, **times) -> EventCount:
    return count("request.stop", n, error, **times)


def of(*counts: EventCount, **durations) -> ArmEvents:
    return ArmEvents(counts=counts, **{name: array("d", values) for name, values in durations.items()})


def test_every_request_that_was_sent_was_answered_failed_or_was_cancelled():
    events = of(over(90), over(6, "429"), over(2, "timeout"), over(2, "cancelled"), count("request.retry", 8))
    usage = summarize_usage("v2", events, level=0.95)

    assert (usage.sent, usage.answered, usage.cancelled, usage.retried) == (100, 90, 2, 8)
    assert usage.failed == {"429": 6, "timeout": 2}


def test_hedges_and_cache_hits_are_counted():
    events = of(over(10), count("hedge.fired", 4), count("hedge.won", 3), count("cache.hit", 7))
    usage = summarize_usage("v2", events, level=0.95)

    assert (usage.hedged, usage.hedges_won, usage.cached) == (4, 3, 7)


def test_what_came_from_the_cache_alone_was_not_sent():
    usage = summarize_usage("v2", of(count("cache.hit", 7)), level=0.95)

    assert (usage.sent, usage.cached, usage.seconds, usage.throughput, usage.latency) == (0, 7, 0.0, None, None)


def test_an_unknown_cost_is_not_zero():
    usage = summarize_usage("v2", of(over(10)), level=0.95)

    assert (usage.cost_usd, usage.unpriced) == (None, 10)
    assert (usage.input_tokens, usage.output_tokens, usage.uncounted) == (None, None, 10)


def test_a_known_cost_of_zero_is_zero():
    assert summarize_usage("v2", of(over(10, priced=10, cost_usd=0.0)), level=0.95).cost_usd == 0.0


def test_a_cost_that_is_known_of_some_says_of_how_many_it_is_not():
    """Failed requests were not charged; the cost of cancelled ones is unknown."""
    events = of(
        over(10, priced=8, cost_usd=0.5, counted=9, input_tokens=90, output_tokens=9),
        over(3, "cancelled"),
        over(5, "429"),
        over(1, "timeout", priced=1, cost_usd=0.25),
    )
    usage = summarize_usage("v2", events, level=0.95)

    assert (usage.cost_usd, usage.unpriced) == (0.75, 5)
    assert (usage.input_tokens, usage.output_tokens, usage.uncounted) == (90, 9, 1)


def test_throughput_is_answers_over_the_time_from_the_first_request_to_the_last():
    events = of(over(30, first=100.0, last=110.0), over(5, "429", first=99.0, last=114.0))
    usage = summarize_usage("v2", events, level=0.95)

    assert (usage.seconds, usage.throughput) == (15.0, 2.0)


@given(st.lists(SECONDS, min_size=1, max_size=60))
def test_percentiles_are_those_of_numpy_with_intervals_from_order_statistics(seconds):
    latency = summarize_usage("v2", of(over(len(seconds)), latencies=seconds), level=0.9).latency

    assert latency is not None
    assert latency.n == len(seconds)
    assert [quantile.share for quantile in latency.quantiles] == list(SHARES)
    assert [quantile.value for quantile in latency.quantiles] == pytest.approx(list(np.quantile(seconds, SHARES)))
    assert [quantile.interval for quantile in latency.quantiles] == [
        quantile_interval(seconds, q, level=0.9) for q in SHARES
    ]


@given(st.lists(SECONDS, min_size=1, max_size=30), st.integers(0, 100), st.integers(0, 5))
def test_who_told_of_no_wait_had_his_turn_at_once(waits, others, hedges):
    """A hedge takes no turn."""
    events = of(over(len(waits) + others + hedges), count("hedge.fired", hedges), waits=waits)
    waited = summarize_usage("v2", events, level=0.95).waited

    assert waited is not None
    assert waited.n == len(waits) + others
    assert waited.at(0.95) == pytest.approx(float(np.quantile([0.0] * others + waits, 0.95)))
    assert {quantile.interval for quantile in waited.quantiles} == {None}


def test_a_wait_for_a_request_that_was_never_sent_counts_as_a_turn():
    waited = summarize_usage("v2", of(over(1), waits=[1.0, 2.0, 3.0]), level=0.95).waited

    assert waited is not None
    assert (waited.n, waited.at(0.5)) == (3, 2.0)


def test_without_waiting_there_is_no_summary():
    usage = summarize_usage("v2", of(over(10), latencies=[1.0]), level=0.95)

    assert (usage.waited, usage.first_token) == (None, None)


def test_the_first_token_has_percentiles_of_its_own():
    first_token = summarize_usage(
        "v2", of(over(2), latencies=[1.0, 2.0], first_tokens=[0.25, 0.5]), level=0.95
    ).first_token

    assert first_token is not None
    assert (first_token.n, first_token.at(0.5)) == (2, 0.375)


class Events(NoStoredDetails):
    def events(self):
        return {"v1": of(over(1)), "v3": of(over(3)), "judge:b": of(over(2)), "judge:a": of(over(4))}


def test_arms_without_events_have_no_usage_and_judges_come_last():
    plan = Plan(
        nodeid="t.py::t", path="t.py", line=1, dataset="d", dataset_sha256="d", planned=1, selected=1, groups=None, repeats=1,
        arms=tuple(Arm(name=name, role="candidate", adapter="", identity=name) for name in ("v3", "v2", "v1")),
        metrics=(), targets=(), contrasts=(), open_metrics=True,
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
    )  # fmt: skip
    inputs = SectionInputs(
        plan=plan, answers=(), groups=(), finished=True, alpha=0.05, facts={}, scores={}, clusters=None, stored=Events()
    )
    result = section.compute(inputs)

    assert result is not None
    assert [(usage.arm, usage.sent) for usage in result.usages] == [
        ("v3", 3),
        ("v1", 1),
        ("judge:a", 4),
        ("judge:b", 2),
    ]
