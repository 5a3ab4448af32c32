"""Streams: any split of the samples, in any order, has the bits of the analysis in memory."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.measures import draws, means, percentiles, ratios
from pytest_crucible.measures.row import Column, Observations, Prepared
from pytest_crucible.measures.streams import open_arm, open_pair, stream_problem
from pytest_crucible.measures.table import GEOMETRIC, comparison_row
from pytest_crucible.records import Contrast, Measure, MetricFacts, Target
from pytest_crucible.stats.resampling.draws import MonteCarlo

SIZES = st.sampled_from([1, 2, 6, 40, 300, 2_500, 6_000])
"""Below and above 2,000, from which samples are joined into blocks, and 4,096, from which values are known by sums of powers."""
RANGES = {
    "binary": (0.0, 1.0),
    "ordinal": (0.0, 3.0),
    "bounded": (0.0, 1.0),
    "count": (0.0, math.inf),
    "positive": (0.0, math.inf),
    "unbounded": (-math.inf, math.inf),
}
NOT_STREAMED = {"effects", "samples_past_limit", "detectable", "samples"}


def draw_values(kind, n, rng):
    return {
        "binary": lambda: (rng.random(n) < 0.7).astype(float),
        "ordinal": lambda: rng.integers(0, 4, n).astype(float),
        "bounded": lambda: np.where(rng.random(n) < 0.3, 1.0, rng.random(n)),
        "count": lambda: rng.poisson(2, n).astype(float),
        "positive": lambda: rng.lognormal(size=n),
        "unbounded": lambda: 3 * rng.normal(size=n),
    }[kind]()


def prepare_arm(values, kind, *, groups, keys):
    return Prepared(
        values=values,
        kind=kind,
        bounds=RANGES[kind],
        clusters=groups,
        keys=keys,
        monte_carlo=MonteCarlo(seed=3, finest=1e-3),
    )


def choose(prepared, places):
    clusters = None if prepared.clusters is None else prepared.clusters[places]
    return replace(prepared, values=prepared.values[places], clusters=clusters, keys=prepared.keys[places])


def deal(n, rng):
    """Return the places of all samples in random parts, in random order."""
    return np.split(rng.permutation(n), np.sort(rng.integers(0, n + 1, size=3)))


def run_passes(streams, batches, feed):
    """Read the batches until all streams are done."""
    while not all(stream.is_done for stream in streams):
        for batch in batches():
            feed(batch)
        for stream in streams:
            if not stream.is_done:
                stream.end_pass()


def read_in_parts(stream, n, rng, feed):
    """Read all samples in each pass, each pass by another split."""
    while not stream.is_done:
        for places in deal(n, rng):
            feed(places)
        stream.end_pass()


def comparable(result):
    return result and {
        field.name: str(getattr(result, field.name)) for field in fields(result) if field.name not in NOT_STREAMED
    }


def compare_in_memory(contrast, facts, candidate, baseline):
    row = comparison_row(contrast, facts)
    pair = (candidate, baseline) if row.higher_is_better(contrast, facts) else (baseline, candidate)
    compare = ratios.compare_geometric_means if row is GEOMETRIC else means.compare_means
    return (means.compare_counts if contrast.statistic == "count" else compare)(*pair, 0.05)


@given(
    st.sampled_from(sorted(RANGES)),
    SIZES,
    st.booleans(),
    st.sampled_from(["free", "near", "equal", "shifted"]),
    st.integers(0, 10**6),
)
@settings(max_examples=choose_examples(60), deadline=None)
def test_a_comparison_has_the_bits_of_memory(kind, n, grouped, likeness, seed):
    rng = np.random.default_rng(seed)
    ours, theirs = draw_values(kind, n, rng), draw_values(kind, n, rng)
    if likeness != "free":
        changes = rng.random(n) < 0.05
        theirs = {"near": np.where(changes, theirs, ours), "equal": ours, "shifted": ours * 0.5}[likeness]
    groups = rng.integers(0, 1 + n // 4, n) if grouped else None
    keys = rng.integers(0, 2**64, n, dtype=np.uint64)
    candidate, baseline = (prepare_arm(values, kind, groups=groups, keys=keys) for values in (ours, theirs))
    facts = MetricFacts(name="m", kind=kind, low=RANGES[kind][0], high=RANGES[kind][1])
    contrast = Contrast(metric="m", baseline="v1", statistic="count" if kind == "count" else "mean")
    stream = open_pair(contrast, facts)

    read_in_parts(stream, n, rng, lambda places: stream.add(choose(candidate, places), choose(baseline, places)))

    expected = comparable(compare_in_memory(contrast, facts, candidate, baseline))
    assert comparable(stream.difference(0.05)) == expected


@given(st.sampled_from(sorted(RANGES)), SIZES, st.booleans(), st.sampled_from(["mean", "count"]), st.integers(0, 10**6))
@settings(max_examples=choose_examples(60), deadline=None)
def test_a_target_has_the_bits_of_memory(kind, n, grouped, statistic, seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 1 + n // 4, n) if grouped else None
    values = draw_values(kind, n, rng) * (seed % 5 > 0)
    arm = prepare_arm(values, kind, groups=groups, keys=rng.integers(0, 2**64, n, dtype=np.uint64))
    stream = open_arm(Measure(metric="m", statistic=statistic))

    read_in_parts(stream, n, rng, lambda places: stream.add(choose(arm, places)))

    estimate, bound = (
        (means.estimate_count, means.bound_count) if statistic == "count" else (means.estimate_mean, means.bound_mean)
    )
    assert str(stream.estimate(0.95)) == str(estimate(arm, 0.95))
    assert str(stream.bound(0.05)) == str(bound(arm, 0.05))


@given(SIZES, st.booleans(), st.sampled_from(["pass^", "pass@"]), st.booleans(), st.integers(0, 10**6))
@settings(max_examples=choose_examples(40), deadline=None)
def test_chances_of_draws_have_the_bits_of_memory(n, grouped, statistic, whole, seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 1 + n // 4, n) if grouped else None
    keys = rng.integers(0, 2**64, n, dtype=np.uint64)
    # Of samples with two replies of three draws, or with as many replies as draws.
    tables = [rng.integers(0, 2, n) * 1.0 if whole else rng.choice([0.0, 1 / 3, 2 / 3, 1.0], n) for _ in range(2)]
    candidate, baseline = (prepare_arm(values, "binary", groups=groups, keys=keys) for values in tables)
    facts = MetricFacts(name="m", kind="binary", low=0.0, high=1.0)
    contrast = Contrast(metric="m", baseline="v1", statistic=statistic, draws=2)
    arm, pair = open_arm(Measure(metric="m", statistic=statistic, draws=2)), open_pair(contrast, facts)

    read_in_parts(arm, n, rng, lambda places: arm.add(choose(candidate, places)))
    read_in_parts(pair, n, rng, lambda places: pair.add(choose(candidate, places), choose(baseline, places)))

    assert str(arm.estimate(0.95)) == str(draws.estimate(candidate, 0.95))
    assert str(arm.bound(0.05)) == str(means.bound_mean(candidate, 0.05))
    assert comparable(pair.difference(0.05)) == comparable(compare_in_memory(contrast, facts, candidate, baseline))


RATE = Measure(metric="m", statistic="rate", inner_relation=">=", inner_value=0.5)


def prepare_replies(table, there, places):
    samples, values = np.nonzero(there[places])[0], table[places][there[places]]
    observations = Observations(
        measure=RATE,
        facts=(MetricFacts(name="m", kind="bounded", low=0.0, high=1.0),),
        columns=(Column(values, values, values),),
        lost=np.zeros(values.size, dtype=bool),
        samples=samples,
    )
    return means.prepare(observations, "observed")


@given(SIZES, st.integers(1, 4), st.booleans(), st.integers(0, 10**6))
@settings(max_examples=choose_examples(50), deadline=None)
def test_a_rate_of_replies_has_the_bits_of_memory_also_where_some_are_lost(n, repeats, some_lost, seed):
    rng = np.random.default_rng(seed)
    table, there = rng.random((n, repeats)), np.ones((n, repeats), dtype=bool)
    if some_lost:
        there[:, 1:] = rng.random((n, repeats - 1)) < 0.8
    stream = open_arm(RATE)

    read_in_parts(
        stream, n, rng, lambda places: stream.add(prepare_replies(table, there, places)) if places.size else None
    )

    whole = prepare_replies(table, there, np.arange(n))
    assert str(stream.estimate(0.95)) == str(means.estimate_mean(whole, 0.95))
    assert str(stream.bound(0.05)) == str(means.bound_mean(whole, 0.05))


@given(
    st.sampled_from(["count", "positive", "unbounded"]),
    st.sampled_from([1, 7, 60, 900, 20_000]),
    st.sampled_from([0.01, 0.5, 0.95]),
    st.booleans(),
    st.integers(0, 10**6),
)
@settings(max_examples=choose_examples(50), deadline=None)
def test_percentiles_have_the_bits_of_memory(kind, n, quantile, some_lost, seed):
    rng = np.random.default_rng(seed)
    arms = [
        replace(
            prepare_arm(draw_values(kind, n, rng), kind, groups=None, keys=np.arange(n, dtype=np.uint64)),
            quantile=quantile,
        )
        for _ in range(2)
    ]
    if some_lost:
        arms[0].values[: 1 + n // 50] = math.inf
    facts = MetricFacts(name="m", kind=kind, low=RANGES[kind][0], direction="lower")
    contrast = Contrast(metric="m", baseline="v1", statistic="quantile", quantile=quantile)
    pairs, target = open_pair(contrast, facts), open_arm(contrast)

    read_in_parts(pairs, n, rng, lambda places: pairs.add(*(choose(arm, places) for arm in arms)))
    read_in_parts(target, n, rng, lambda places: target.add(choose(arms[0], places)))

    assert comparable(pairs.difference(0.05)) == comparable(percentiles.compare(arms[1], arms[0], 0.05))
    assert str(target.estimate(0.95)) == str(percentiles.estimate(arms[0], 0.95))
    assert str(target.bound(0.05)) == str(percentiles.bound(arms[0], 0.05))


def test_percentiles_of_groups_are_refused():
    stream = open_arm(Measure(metric="m", statistic="quantile", quantile=0.95))
    arm = prepare_arm(np.array([1.0, 2.0]), "positive", groups=np.array([0, 0]), keys=None)
    run_passes([stream], lambda: [arm], stream.add)

    assert stream.problem.startswith("p95(m) is not computed for so many replies: bounds of a percentile of groups")
    assert stream.bound(0.05)[0].value is None


def test_lost_values_without_an_end_leave_a_target_without_bounds_and_a_comparison_without_a_value():
    values = np.array([1.0, math.inf, 2.0])
    arm = prepare_arm(values, "positive", groups=None, keys=np.arange(3, dtype=np.uint64))
    target, pairs = (
        open_arm(Measure(metric="m")),
        open_pair(Contrast(metric="m", baseline="v1"), MetricFacts(name="m", kind="positive", low=0.0)),
    )
    run_passes([target], lambda: [arm], target.add)
    run_passes([pairs], lambda: [arm], lambda batch: pairs.add(batch, batch))

    assert target.bound(0.05) == means.bound_mean(arm, 0.05)
    assert target.bound(0.05)[0].value == math.inf
    assert pairs.difference(0.05) is None


def test_no_sample_is_no_data():
    stream = open_arm(Measure(metric="m"))
    run_passes([stream], list, stream.add)

    assert stream.estimate(0.95).method == "no data"
    assert stream.bound(0.05)[0].value is None


def test_unequal_numbers_of_replies_are_refused_for_scores():
    stream = open_arm(Measure(metric="m", statistic="count"))
    even = Prepared(values=np.array([0.5]), kind="bounded", bounds=(0.0, 1.0), size=2)
    run_passes([stream], lambda: [even, replace(even, size=3)], stream.add)

    assert stream.problem == "count(m) is not computed for so many replies: samples have unequal numbers of replies"
    assert stream.bound(0.05)[0].value is None


def test_a_permutation_test_asks_for_the_keys_of_its_samples():
    arm = replace(prepare_arm(np.array([0.5, 0.7]), "bounded", groups=None, keys=None))
    stream = open_pair(Contrast(metric="m", baseline="v1"), MetricFacts(name="m", kind="bounded", low=0.0, high=1.0))

    with pytest.raises(ValueError, match="needs the keys of its samples"):
        stream.add(arm, arm)


@pytest.mark.parametrize(
    ("measure", "part"),
    [
        (Target(text="auroc(m) >= 0.8", metric="m", statistic="auroc", relation=">=", value=0.8), "auroc(m)"),
        (Contrast(metric="m", baseline="v1", by_mean=True), "mean(m)"),
    ],
)
def test_a_measure_without_a_stream_is_refused_with_its_name_and_the_number(measure, part):
    problem = stream_problem(measure, MetricFacts(name="m", kind="positive", low=0.0))

    assert problem.startswith(f"{part} is not computed for so many replies: ")
    assert stream_problem(Measure(metric="m"), MetricFacts(name="m", kind="binary", low=0.0, high=1.0)) == ""
