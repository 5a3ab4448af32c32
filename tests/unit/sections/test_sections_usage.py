"""Usage of an arm, from the events of its requests, and how it is shown."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records import Arm, ArmEvents, EventCount, Fingerprint, LatencySummary, Plan, Quantile, Usage
from pytest_crucible.report.json import render_json
from pytest_crucible.report.terminal import summary
from pytest_crucible.sections import usage as section
from pytest_crucible.sections.inputs import NoStoredDetails, SectionInputs
from pytest_crucible.sections.usage import SHARES, summarize_usage
from pytest_crucible.stats import quantile_interval
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import dollars, seconds

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


UNKNOWN_COST = {"cost_usd": None, "unpriced": 10, "input_tokens": None, "output_tokens": None, "uncounted": 10}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([over(10), count("hedge.fired", 4), count("hedge.won", 3)], {"hedged": 4, "hedges_won": 3}),
        ([count("cache.hit", 7)], {"sent": 0, "cached": 7, "seconds": 0.0, "throughput": None, "latency": None}),
        ([over(10)], UNKNOWN_COST),
        ([over(10, priced=10, cost_usd=0.0)], {"cost_usd": 0.0}),
    ],
    ids=["hedges", "cache", "unknown cost", "no cost"],
)
def test_events_are_counted_and_an_unknown_cost_is_not_zero(counts, expected):
    usage = summarize_usage("v2", of(*counts), level=0.95)

    assert {name: getattr(usage, name) for name in expected} == expected


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
    sent = {usage.arm: usage.sent for usage in result.usages}
    assert list(sent.items()) == [("v3", 3), ("v1", 1), ("judge:a", 4), ("judge:b", 2)]


def spread(n: int, *values: float, half: float = 0.0) -> LatencySummary:
    quantiles = tuple(
        Quantile(
            share=share,
            value=value,
            interval=Interval(low=value - half, high=value + half, level=0.95, method="o") if half else None,
        )
        for share, value in zip((0.5, 0.9, 0.95, 0.99), values, strict=True)
    )
    return LatencySummary(n=n, quantiles=quantiles)


PLAIN = Usage(
    arm="v2", sent=1000, answered=1000, failed={}, cancelled=0, retried=0, hedged=0, hedges_won=0, cached=0,
    input_tokens=120_000, output_tokens=20_123, uncounted=0, cost_usd=0.04123, unpriced=0,
    latency=spread(1000, 0.344, 0.77, 0.934, 1.34, half=0.02), first_token=None, waited=None, seconds=26.0,
)  # fmt: skip


def bare(analysis, plan=None, **facts):
    """An experiment that has nothing but its usage."""
    nothing = {
        **dict.fromkeys(("targets", "comparisons", "estimates", "worst"), ()),
        "lost": {"v2": {}},
        "failures": {"v2": {}},
    }
    return analysis(plan, **nothing, **facts)


def usage_lines(run) -> list[str]:
    return [line.text for line in summary(run, verbosity=0, width=140)][:-1]


def percentile_lines(run) -> list[str]:
    """What -v adds: the percentiles, what is unknown, and a last line about the run."""
    usual = len(list(summary(run, verbosity=0, width=140)))
    return [line.text for line in summary(run, verbosity=1, width=140)][usual:-1]


@pytest.fixture
def with_usage(run, analysis):
    """A run of one experiment, whose arms took this, and of which nothing else is shown."""
    return lambda *usages: run(bare(analysis, usages=usages), verdicts=())


def usage_with(**facts) -> Usage:
    return replace(PLAIN, **facts)


def test_an_arm_is_one_line(with_usage):
    assert (usage_lines(with_usage(PLAIN))) == [
        "arm  requests  tokens in     out    cost  latency p50      p95  replies/s",
        "v2      1,000    120,000  20,123  $0.041      0.344 s  0.934 s       38.5",
    ]


def test_what_went_otherwise_than_it_should_stands_below(with_usage):
    eventful = usage_with(
        sent=1018, failed={"timeout": 2, "429": 8}, cancelled=8, retried=10, hedged=8, hedges_won=5, unpriced=8,
        waited=spread(1010, 0.0, 0.1, 0.1, 0.1),
    )  # fmt: skip

    assert (usage_lines(with_usage(eventful, usage_with(arm="v1", cost_usd=None, unpriced=1000)))) == [
        "arm  requests  tokens in     out       cost  latency p50      p95  replies/s",
        "v2      1,018    120,000  20,123  >= $0.041      0.344 s  0.934 s       38.5",
        "    10 failed (429 x 8, timeout x 2); 10 retried; 8 hedged, 5 won; 8 cancelled (in no percentile); "
        "rate limit wait: p50 0 s, p95 0.100 s; cost of 8 requests unknown",
        "v1      1,000    120,000  20,123    unknown      0.344 s  0.934 s       38.5",
    ]


def test_an_unknown_figure_has_no_column(with_usage):
    unknown = usage_with(input_tokens=None, output_tokens=None, cost_usd=None, unpriced=1000, uncounted=1000)

    assert (usage_lines(with_usage(unknown))) == [
        "arm  requests  latency p50      p95  replies/s",
        "v2      1,000      0.344 s  0.934 s       38.5",
    ]


def test_an_arm_that_was_never_answered_has_no_latency(with_usage):
    lost = usage_with(answered=0, failed={"429": 1000}, latency=None, seconds=0.0, input_tokens=None, cost_usd=None)

    assert (usage_lines(with_usage(lost)))[1].split() == ["v2", "1,000", "20,123"]
    assert (usage_lines(with_usage(lost, PLAIN)))[1].split() == [
        "v2", "1,000", "-", "20,123", "unknown", "-", "-", "-"
    ]  # fmt: skip


def test_scripts_and_files_cost_nothing_that_is_worth_a_line(with_usage, plan, run, analysis):
    arms = tuple(replace(arm, simulated=True) for arm in plan().arms)

    assert (usage_lines(run(bare(analysis, plan(arms=arms), usages=(PLAIN,)), verdicts=()))) == []
    assert (usage_lines(with_usage())) == []
    assert (usage_lines(with_usage(usage_with(sent=0, cached=5)))) == []


def test_with_several_experiments_each_has_its_name(run, analysis, plan):
    others = bare(analysis, plan(nodeid="test_math.py::test_others"), usages=(PLAIN,))

    assert [line.split()[0] for line in usage_lines(run(bare(analysis, usages=(PLAIN,)), others, verdicts=()))] == [
        "arm", "test_math.py::test_sums", "v2", "test_math.py::test_others", "v2",
    ]  # fmt: skip


def test_all_percentiles_stand_in_a_table_with_their_intervals(with_usage):
    usage = usage_with(waited=spread(1000, 0.0, 0.1, 0.1, 0.2), first_token=spread(9, 0.1, 0.2, 0.2, 0.3, half=0.01))

    assert (percentile_lines(with_usage(usage))) == [
        "arm  time of              n  p50                   p90                   p95                   p99",
        "v2   reply            1,000  0.344 [0.324, 0.364]  0.770 [0.750, 0.790]  0.934 [0.914, 0.954]  1.340 [1.320, 1.360]",
        "v2   first token          9  0.100 [0.090, 0.110]  0.200 [0.190, 0.210]  0.200 [0.190, 0.210]  0.300 [0.290, 0.310]",
        "v2   rate limit wait  1,000  0.000                 0.100                 0.100                 0.200",
        "seconds; percentiles linear between order statistics (type 7) of answered requests, 95 % intervals from order "
        "statistics; cancelled requests are left out",
        "",
    ]  # fmt: skip


def test_what_is_not_known_is_said_below_them(with_usage):
    usage = usage_with(cost_usd=None, unpriced=1000, uncounted=1, cached=12)

    assert (percentile_lines(with_usage(usage)))[-1] == (
        "test_sums: v2: cost of 1,000 requests unknown; tokens of 1 reply unknown; 12 read from the cache"
    )


@pytest.mark.parametrize(("verbosity", "titles"), [(-1, (False, False)), (0, (True, False)), (1, (True, True))])
def test_quiet_shows_nothing_and_verbose_shows_percentiles(with_usage, verbosity, titles):
    text = "\n".join(line.text for line in summary(with_usage(PLAIN), verbosity=verbosity, width=120))

    assert ("arm  requests" in text, "time of" in text) == titles


def test_the_json_has_it_with_its_arm(with_usage):
    usage = usage_with(waited=spread(1000, 0.0, 0.1, 0.1, 0.2), failed={"429": 1})
    [result] = json.loads(render_json(with_usage(usage)))["experiments"][0]["sections"]["usage"]

    expected = {"arm": "v2", "sent": 1000, "failed": {"429": 1}, "cost_usd": 0.04123, "first_token": None}
    assert {name: result[name] for name in expected} == expected
    assert result["throughput"] == pytest.approx(1000 / 26)
    assert result["waited"] == {"n": 1000, "p50": 0.0, "p90": 0.1, "p95": 0.1, "p99": 0.2, "intervals": None}
    assert result["latency"]["intervals"]["p50"] == pytest.approx([0.324, 0.364])


def test_an_infinite_end_is_strict_json(with_usage):
    end = Interval(low=0.1, high=float("inf"), level=0.95, method="order statistics")
    usage = usage_with(
        latency=LatencySummary(
            n=1, quantiles=tuple(Quantile(share=share, value=0.2, interval=end) for share in (0.5, 0.9, 0.95, 0.99))
        )
    )
    document = json.loads(render_json(with_usage(usage)))

    assert document["experiments"][0]["sections"]["usage"][0]["latency"]["intervals"]["p50"] == [0.1, "inf"]


def test_numbers_have_as_many_digits_as_they_need():
    assert [dollars(entry) for entry in (0.0, 0.0000123, 0.0994, 0.1, 1234.5)] == [
        "$0.00", "$0.000012", "$0.099", "$0.10", "$1,234.50",
    ]  # fmt: skip
    assert [seconds(entry) for entry in (0.0, 0.00123, 12.34, 123.4, 12345.6)] == [
        "0 s", "0.00123 s", "12.3 s", "123 s", "12,346 s",
    ]  # fmt: skip
