"""pass^k, pass@k and means over tasks: bounds err in at most alpha, and the intervals that are shown cover the truth.

With repeats the sample is the unit: its chance is an unbiased estimate of p^k, or of 1 - (1 - p)^k, and samples are independent. Of
tasks, p is another one in each.
"""

from __future__ import annotations

import numpy as np
import pytest
from run_sizes import choose_runs
from simulation import ALPHA, at_least, at_most

from pytest_crucible.measures.row import Column, Observations, Prepared
from pytest_crucible.measures.sequences import wealth_against
from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.records import Measure, MetricFacts
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.stats import crossed_bounds, crossed_difference, crossed_interval, crossed_mean, crossed_p_value
from pytest_crucible.stats.slices.slicing import Slicing

pytestmark = pytest.mark.slow

RUNS = choose_runs(400)
FACTS = {kind: MetricFacts(name="m", kind=kind, low=0.0, high=1.0) for kind in ("binary", "bounded")}
SAMPLES = {
    "alike": lambda rng, shape: np.full(shape, 0.9),
    "from sure to hopeless": lambda rng, shape: rng.beta(0.5, 0.3, shape),
    "one in ten is flaky": lambda rng, shape: np.where(rng.random(shape) < 0.1, 0.5, 1.0),
}
"""The chance that a reply to a sample passes."""


def count_errors(row, runs, truth, level=1 - ALPHA):
    """Return how often each one-sided bound, and the interval, does not hold the truth."""
    above = below = outside = 0
    for prepared in runs:
        bounds, _ = row.bound(prepared, ALPHA)
        interval = row.estimate(prepared, level).interval
        above, below = above + (bounds.lower > truth), below + (bounds.upper < truth)
        outside += not interval.low <= truth <= interval.high
    return above, below, outside


def show(what, above, below, outside):
    print(
        f"{what}: lower bound above {above / RUNS:.3f}, upper bound below {below / RUNS:.3f}, coverage {1 - outside / RUNS:.3f}"
    )


@pytest.mark.parametrize(("n", "repeats"), [(20, 3), (20, 8), (100, 3), (100, 8)])
@pytest.mark.parametrize("samples", SAMPLES)
@pytest.mark.parametrize("name", ["pass^", "pass@"])
def test_chances_of_draws_are_seldom_beyond_their_bounds(name, samples, n, repeats):
    rng = np.random.default_rng([n, repeats, list(SAMPLES).index(samples)])
    row, k = STATISTICS[name], 3
    population = SAMPLES[samples](rng, 400_000)
    truth = float(np.mean(population**k if name == "pass^" else 1 - (1 - population) ** k))

    def draw():
        passed = rng.binomial(repeats, SAMPLES[samples](rng, n))
        values = row.chances(repeats, passed, k)
        return Prepared(values=values, kind="binary", bounds=(0.0, 1.0))

    above, below, outside = count_errors(row, (draw() for _ in range(RUNS)), truth)

    show(f"{name}{k}, {samples}, {n} x {repeats}", above, below, outside)
    assert at_most(above, RUNS, ALPHA)
    assert at_most(below, RUNS, ALPHA)
    # With three replies to each sample the interval is Wilson's, which is for showing.
    assert at_least(RUNS - outside, RUNS, 0.95 if repeats > k else 0.9)


@pytest.mark.parametrize("samples", SAMPLES)
@pytest.mark.parametrize("name", ["pass^", "pass@"])
def test_looks_at_chances_of_draws_rarely_refute_the_truth(name, samples):
    """After every sample of 300, with 4 replies to each."""
    rng = np.random.default_rng([4, list(SAMPLES).index(samples)])
    row, k = STATISTICS[name], 2
    population = SAMPLES[samples](rng, 400_000)
    truth = float(np.mean(population**k if name == "pass^" else 1 - (1 - population) ** k))
    refuted = {"lower": 0, "upper": 0}
    for _ in range(RUNS):
        values = row.chances(4, rng.binomial(4, SAMPLES[samples](rng, 300)), k)
        prepared = Prepared(values=values, kind="binary", bounds=(0.0, 1.0))
        for side in refuted:
            refuted[side] += bool(wealth_against(prepared, truth, ALPHA, side).max() > -np.log(ALPHA))

    print(f"{name}{k}, {samples}: {refuted}")
    assert all(at_most(count, RUNS, ALPHA) for count in refuted.values())


SIZES = {"5": lambda k: 5, "20": lambda k: 20, "200": lambda k: 200, "5 to 40": lambda k: 5 * (1 + k % 8)}


def observe(values, tasks, count, kind, counts, clusters=None):
    """Return observations of samples, and the row that takes them."""
    by = By((Field("task"),))
    return Observations(
        measure=Measure(statistic="overall", metric="m", by=by, counts=counts),
        facts=(FACTS[kind],),
        columns=(Column(values, values, values),),
        lost=np.zeros(len(values), dtype=bool),
        clusters=clusters,
        slicing=Slicing(codes=tasks, names=tuple(map(str, range(count)))),
    )


def draw_values(rng, rates, kind):
    """Return yes or no, or scores with these means, half of them 0 or 1."""
    if kind == "binary":
        return (rng.random(len(rates)) < rates).astype(float)
    return np.where(rng.random(len(rates)) < 0.5, rng.random(len(rates)) < rates, rng.beta(4 * rates, 4 * (1 - rates)))


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("kind", ["binary", "bounded"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [3, 10, 30])
def test_the_mean_of_these_tasks_is_seldom_beyond_its_bounds(count, size, kind, rate):
    rng = np.random.default_rng([count, list(SIZES).index(size), int(rate * 100)])
    rates = rng.beta(8 * rate, 8 * (1 - rate), count).clip(0.01, 0.99)
    tasks = np.repeat(np.arange(count), [SIZES[size](task) for task in range(count)])
    row = STATISTICS["overall"]

    def draw():
        observations = observe(draw_values(rng, rates[tasks], kind), tasks, count, kind, "macro")
        return row.prepare(observations, "observed")

    above, below, outside = count_errors(row, (draw() for _ in range(RUNS)), float(rates.mean()))

    show(f"{count} tasks of {size}, {kind} {rate}", above, below, outside)
    assert at_most(above, RUNS, ALPHA)
    assert at_most(below, RUNS, ALPHA)
    assert at_least(RUNS - outside, RUNS, 1 - ALPHA)


@pytest.mark.parametrize("counts", ["macro", "micro"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [6, 30])
def test_the_mean_of_drawn_tasks_is_seldom_beyond_its_bounds(count, size, counts):
    rng = np.random.default_rng([count, list(SIZES).index(size)])
    tasks = np.repeat(np.arange(count), [SIZES[size](task) for task in range(count)])
    row = STATISTICS["overall"]

    def draw():
        rates = rng.beta(3.2, 0.8, count)
        values = draw_values(rng, rates[tasks], "binary")
        return row.prepare(observe(values, tasks, count, "binary", counts, clusters=tasks), "observed")

    above, below, outside = count_errors(row, (draw() for _ in range(RUNS)), 0.8)

    show(f"{count} drawn tasks of {size}, {counts}", above, below, outside)
    assert at_most(above, RUNS, ALPHA)
    assert at_most(below, RUNS, ALPHA)
    assert at_least(RUNS - outside, RUNS, 0.92 if count == 30 else 0.88)


def draw_rounds(rng, rates, tasks, rounds, noise, samples=0.1):
    """Return yes or no of samples x rounds; a round shifts all of them, and each task by its own share of that."""
    shift = rng.choice([-noise, noise], rounds) + rng.choice([-noise, noise], (len(rates), rounds))[tasks] / 2
    own = rng.uniform(-samples, samples, len(tasks))
    return (rng.random(shift.shape) < rates[tasks][:, None] + own[:, None] + shift).astype(float)


def cross_units(counts, values, tasks, count, clusters=None):
    by = By((Field("task"),))
    measure = Measure(statistic="overall", metric="m", by=by, counts=counts)
    slicing = Slicing(codes=tasks, names=tuple(map(str, range(count))))
    return STATISTICS["overall"].units(measure, values, slicing, clusters)


TASK_CASES = [("macro", False), ("macro", True), ("micro", True)]
"""Which counts alike, and whether tasks are drawn; of a micro mean they always are."""


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("rounds", [3, 10])
@pytest.mark.parametrize("size", ["20", "5 to 40"])
@pytest.mark.parametrize(("counts", "is_drawn"), TASK_CASES)
def test_means_of_tasks_over_random_rounds_are_seldom_beyond_their_bounds(counts, is_drawn, size, rounds, noise):
    count = 8
    rng = np.random.default_rng([rounds, int(noise * 100), is_drawn, len(counts)])
    tasks = np.repeat(np.arange(count), [SIZES[size](task) for task in range(count)])
    drawn = np.linspace(0.3, 0.7, 21)
    fixed = rng.choice(drawn, count)
    truth = 0.5 if is_drawn else float(fixed.mean())
    above = below = outside = 0
    for _ in range(RUNS):
        rates = rng.choice(drawn, count) if is_drawn else fixed
        values = draw_rounds(rng, rates, tasks, rounds, noise)
        units = cross_units(counts, values, tasks, count, tasks if is_drawn else None)
        mean = crossed_mean(units.cells, ["rounds"], units.clusters, strata=units.strata)
        bounds = crossed_bounds(mean, alpha=ALPHA, bounds=(0.0, 1.0))
        interval = crossed_interval(mean, level=1 - ALPHA, bounds=(0.0, 1.0))
        above, below = above + (bounds.low > truth), below + (bounds.high < truth)
        outside += not interval.low <= truth <= interval.high

    show(f"{counts}, drawn {is_drawn}, tasks of {size}, {rounds} rounds, noise {noise}", above, below, outside)
    assert at_most(above, RUNS, ALPHA)
    assert at_most(below, RUNS, ALPHA)
    assert at_least(RUNS - outside, RUNS, 1 - ALPHA)


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("rounds", [3, 10])
@pytest.mark.parametrize("size", ["20", "5 to 40"])
@pytest.mark.parametrize(("counts", "is_drawn"), TASK_CASES)
def test_arms_alike_over_tasks_and_rounds_are_seldom_called_different(counts, is_drawn, size, rounds, noise):
    """Each arm has rounds of its own luck, which are paired."""
    count = 8
    rng = np.random.default_rng([rounds, int(noise * 100), is_drawn, len(counts), 1])
    tasks = np.repeat(np.arange(count), [SIZES[size](task) for task in range(count)])
    rates = rng.uniform(0.3, 0.7, count)
    alarms = 0
    for _ in range(RUNS):
        arms = (draw_rounds(rng, rates, tasks, rounds, noise, samples=0.1) for _ in range(2))
        ours, theirs = (cross_units(counts, arm, tasks, count, tasks if is_drawn else None) for arm in arms)
        mean = crossed_difference(ours.cells, theirs.cells, ["rounds"], ours.clusters, strata=ours.strata)
        alarms += crossed_p_value(mean, bounds=(-1.0, 1.0)) <= ALPHA

    print(f"{counts}, drawn {is_drawn}, tasks of {size}, {rounds} rounds, noise {noise}: alarms {alarms / RUNS:.3f}")
    assert at_most(alarms, RUNS, ALPHA)
