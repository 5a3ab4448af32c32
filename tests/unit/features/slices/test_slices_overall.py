"""The mean over slices: of their means (macro), or of all samples with the slices as groups (micro)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy
from answer_builders import analysis_inputs, arm, reply_rows
from plan_builders import plan_of

from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.plan.design import contrasts_with_baselines
from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.records import MetricFacts, Sample
from pytest_crucible.stats import estimate as estimate_values

PASSES = MetricFacts(name="m", kind="binary", low=0.0, high=1.0)
SCORE = MetricFacts(name="m", kind="bounded", low=0.0, high=1.0)
NUMBER = MetricFacts(name="m", kind="unbounded")
SIZES = {"law": 40, "tax": 10, "art": 6}


def analysis(*arms, tasks, targets=(), contrasts=(), facts=SCORE, groups=None):
    inputs = analysis_inputs(
        *(arm(m=values) for values in arms),
        metrics=[facts],
        targets=targets,
        contrasts=[replace(parse_contrast(text, **options), baseline="v1") for text, options in contrasts],
        groups=groups,
    )
    inputs = replace(
        inputs, expected=[None] * len(tasks), metadata=[{} if task is None else {"task": task} for task in tasks]
    )
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=1)


def target(text, values, **options):
    return analysis(values, targets=[text], **options).targets[0]


def by_task(values, tasks):
    return [
        np.array([value for value, own in zip(values, tasks, strict=True) if own == task])
        for task in dict.fromkeys(tasks)
    ]


@pytest.fixture
def tasks():
    return [task for task, size in SIZES.items() for _ in range(size)]


@pytest.fixture
def scores(tasks):
    """Scores whose level is another one in each task."""
    rng = np.random.default_rng(7)
    level = {"law": 0.9, "tax": 0.5, "art": 0.3}
    return [float(np.clip(rng.normal(level[task], 0.2), 0, 1)) for task in tasks]


def test_a_macro_mean_is_of_these_tasks_and_has_the_error_of_a_stratified_mean(tasks, scores):
    """R: survey::svymean of the strata's means; here by hand: sqrt(sum(var_k / n_k)) / K, and Welch's degrees of freedom."""
    result = target("overall(m by task, macro) >= 0.5", scores, tasks=tasks, facts=NUMBER)

    of_tasks = by_task(scores, tasks)
    variances = np.array([values.var(ddof=1) / len(values) for values in of_tasks])
    sizes = np.array([len(values) for values in of_tasks])
    dof = variances.sum() ** 2 / (variances**2 / (sizes - 1)).sum()
    mean = np.mean([values.mean() for values in of_tasks])
    half = scipy.stats.t.ppf(0.975, dof) * math.sqrt(variances.sum()) / 3
    assert result.estimate.value == pytest.approx(mean)
    assert (result.estimate.interval.low, result.estimate.interval.high) == pytest.approx((mean - half, mean + half))
    assert (result.estimate.method, result.estimate.n, result.estimate.clusters) == ("t, stratified", 56, None)
    assert result.evidence.observed.lower is None

    bounded = target("overall(m by task, macro) >= 0.5", scores, tasks=tasks)
    bounds, interval = bounded.evidence.observed, bounded.estimate.interval
    assert bounded.note == "the claim is about these 3 values of task alone"
    assert interval.low < bounds.lower < mean - half / 2 < mean + half / 2 < bounds.upper < interval.high


def test_tasks_of_equal_size_have_the_mean_of_all_samples_and_a_smaller_error(scores):
    tasks = ["law", "tax"] * 28
    macro = target("overall(m by task, macro) >= 0.5", scores, tasks=tasks)
    plain = target("m >= 0.5", scores, tasks=tasks)

    assert macro.estimate.value == pytest.approx(plain.estimate.value)
    assert macro.evidence.observed.lower == pytest.approx(plain.evidence.observed.lower)


def test_yes_or_no_is_wilson_at_the_effective_size():
    values = [True] * 18 + [False] * 2 + [True] * 5 + [False] * 5
    result = target("overall(m by task, macro) >= 0.5", values, tasks=["law"] * 20 + ["tax"] * 10, facts=PASSES)

    variance = (0.9 * 0.1 / 19 + 0.25 / 9) / 4
    dof = (0.9 * 0.1 / 19 + 0.25 / 9) ** 2 / ((0.9 * 0.1 / 19) ** 2 / 19 + (0.25 / 9) ** 2 / 9)
    size, t = 0.7 * 0.3 / variance, scipy.stats.t.ppf(0.975, dof)
    ends = [
        (0.7 + t * t / 2 / size + sign * t * math.sqrt(0.21 / size + (t / 2 / size) ** 2)) / (1 + t * t / size)
        for sign in (-1, 1)
    ]
    assert result.estimate.value == pytest.approx(0.7)
    assert [result.estimate.interval.low, result.estimate.interval.high] == pytest.approx(ends)


def test_tasks_that_are_groups_are_drawn_like_others():
    rng = np.random.default_rng(2)
    tasks = [f"t{k}" for k in range(8) for _ in range(3 + k)]
    scores = rng.random(len(tasks)).tolist()

    result = target("overall(m by task, macro) >= 0.5", scores, tasks=tasks, groups=tasks)

    means = [values.mean() for values in by_task(scores, tasks)]
    direct = estimate_values(means, kind="bounded", bounds=(0, 1))
    assert result.estimate.value == pytest.approx(np.mean(means))
    assert (result.estimate.interval.low, result.estimate.interval.high) == pytest.approx(
        (direct.interval.low, direct.interval.high)
    )
    assert (result.estimate.n, result.estimate.clusters) == (len(tasks), 8)
    assert result.note == "the claim is about others like these 8 values of task, too"


def test_a_micro_mean_is_of_all_samples_with_the_tasks_as_groups():
    rng = np.random.default_rng(2)
    tasks = [f"t{k}" for k in range(8) for _ in range(3 + k)]
    scores = rng.random(len(tasks)).tolist()

    micro = target("overall(m by task, micro) >= 0.5", scores, tasks=tasks)
    grouped = target("m >= 0.5", scores, tasks=tasks, groups=tasks)

    assert micro.estimate.interval == grouped.estimate.interval
    assert micro.evidence.observed == grouped.evidence.observed
    # Groups that lie in two tasks join them.
    joined = target(
        "overall(m by task, micro) >= 0.5",
        scores,
        tasks=tasks,
        groups=["a" if task in ("t0", "t1") else task for task in tasks],
    )
    assert joined.estimate.clusters == 7


def test_samples_without_the_field_are_left_out(tasks, scores):
    result = target("overall(m by task, macro) >= 0.5", [*scores, 0.0, 0.0], tasks=[*tasks, None, None])

    assert result.estimate.n == len(tasks)
    assert result.estimate.value == target("overall(m by task, macro) >= 0.5", scores, tasks=tasks).estimate.value


def test_a_task_of_which_all_samples_are_lost_leaves_the_mean_unknown(tasks, scores):
    lost = ["lost" if task == "art" else value for task, value in zip(tasks, scores, strict=True)]

    result = target("overall(m by task, macro) >= 0.5", lost, tasks=tasks)

    law, tax, _ = by_task(scores, tasks)
    assert result.estimate.value is None
    assert result.note == "'art' has no value, so that the mean of all slices is unknown"
    assert (result.evidence.worst.value, result.evidence.best.value) == pytest.approx(
        ((law.mean() + tax.mean()) / 3, (law.mean() + tax.mean() + 1) / 3)
    )


def test_two_arms_are_compared_by_the_weighted_differences_of_pairs(tasks, scores):
    rng = np.random.default_rng(4)
    worse = [float(np.clip(value - rng.random() / 5, 0, 1)) for value in scores]

    result = analysis(
        scores, worse, tasks=tasks, contrasts=[("overall(m by task, macro)", {"margin": 0.1})]
    ).comparisons[0]

    gains = [
        own.mean() - other.mean() for own, other in zip(by_task(scores, tasks), by_task(worse, tasks), strict=True)
    ]
    assert result.difference == pytest.approx(np.mean(gains))
    assert result.evidence.observed.lower < result.difference < result.evidence.observed.upper
    assert (result.method, result.evidence.method, result.pairs) == ("sign flips", "gaffke of a weighted mean", 56)


def test_of_equal_tasks_the_comparison_is_that_of_the_mean(scores):
    rng = np.random.default_rng(4)
    worse = [float(np.clip(value - rng.random() / 5, 0, 1)) for value in scores]
    texts = [("overall(m by task, macro)", {"margin": 0.1}), ("m", {"margin": 0.1})]

    macro, plain = analysis(scores, worse, tasks=["law", "tax"] * 28, contrasts=texts).comparisons

    assert macro.p_value == plain.p_value
    assert macro.difference == pytest.approx(plain.difference)
    assert macro.evidence.observed.lower == pytest.approx(plain.evidence.observed.lower)
    assert macro.evidence.observed.proof_p == pytest.approx(plain.evidence.observed.proof_p)


ROUNDS = 8


def noisy_rounds(values, seed=0):
    """Return scores in several rounds, some of which are better for all samples."""
    rng = np.random.default_rng(seed)
    better = rng.normal(0, 0.05, ROUNDS)
    return [[float(np.clip(value + more + rng.normal(0, 0.1), 0, 1)) for more in better] for value in values]


def over_rounds(*arms, tasks, targets=(), contrasts=(), groups=None):
    inputs = analysis_inputs(
        *map(reply_rows, arms),
        metrics=[SCORE],
        targets=targets,
        contrasts=[replace(parse_contrast(text, margin=0.2), baseline="v1") for text in contrasts],
        groups=groups,
        n=len(arms[0]),
        repeats=ROUNDS,
        rounds=ROUNDS,
    )
    metadata = [{} if tasks is None else {"task": task} for task in tasks or arms[0]]
    inputs = replace(inputs, expected=[None] * len(arms[0]), metadata=metadata)
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=1)


def ends(result):
    observed, interval = result.evidence.observed, result.estimate.interval
    return result.estimate.value, observed.lower, observed.upper, interval.low, interval.high


def test_of_equal_tasks_over_rounds_the_mean_is_the_plain_one(scores):
    macro, plain = over_rounds(
        noisy_rounds(scores),
        tasks=["law", "tax"] * 28,
        targets=["overall(m by task, macro) >= 0.5", "m >= 0.5"],
    ).targets

    assert ends(macro) == pytest.approx(ends(plain), abs=1e-9)
    assert macro.evidence.method == plain.evidence.method == "gaffke over levels"
    assert macro.note == "the claim is about these 2 values of task alone"


def test_a_macro_mean_of_unequal_tasks_over_rounds_is_that_of_their_means(tasks, scores):
    rows = noisy_rounds(scores)
    result = over_rounds(rows, tasks=tasks, targets=["overall(m by task, macro) >= 0.5"]).targets[0]

    assert result.estimate.value == pytest.approx(np.mean([values.mean() for values in by_task(rows, tasks)]))
    assert result.evidence.observed.lower < result.estimate.interval.low + 0.1 < result.estimate.value
    # Rounds add to the interval of the samples alone.
    alone = target("overall(m by task, macro) >= 0.5", [float(np.mean(row)) for row in rows], tasks=tasks)
    assert result.evidence.observed.lower < alone.evidence.observed.lower


def test_a_micro_mean_over_rounds_has_the_tasks_as_groups(scores):
    tasks = [f"t{k % 8}" for k in range(len(scores))]
    micro = over_rounds(noisy_rounds(scores), tasks=tasks, targets=["overall(m by task, micro) >= 0.5"]).targets[0]
    plain = over_rounds(noisy_rounds(scores), tasks=tasks, targets=["m >= 0.5"], groups=tasks).targets[0]

    assert ends(micro) == ends(plain)


def test_drawn_tasks_over_rounds_are_the_units(scores):
    tasks = [f"t{k % 8}" for k in range(len(scores))]
    rows = noisy_rounds(scores)
    drawn = over_rounds(rows, tasks=tasks, targets=["overall(m by task, macro) >= 0.5"], groups=tasks).targets[0]
    of_tasks = [values.mean(axis=0).tolist() for values in by_task(rows, tasks)]
    plain = over_rounds(of_tasks, tasks=None, targets=["m >= 0.5"], groups=[f"g{k}" for k in range(8)]).targets[0]

    assert ends(drawn) == pytest.approx(ends(plain))
    assert drawn.estimate.n == len(scores)


@pytest.mark.parametrize("groups", [None, "tasks"])
def test_arms_are_compared_over_rounds_and_tasks(scores, groups):
    tasks = [f"t{k % 7}" for k in range(len(scores))]
    worse = [max(score - 0.1, 0.0) for score in scores]
    texts = ["overall(m by task, macro)", "overall(m by task, micro)", "m"]
    macro, micro, plain = over_rounds(
        noisy_rounds(scores), noisy_rounds(worse, seed=1), tasks=tasks, contrasts=texts, groups=groups and tasks
    ).comparisons

    # All tasks have eight samples.
    assert macro.difference == pytest.approx(plain.difference)
    assert micro.difference == pytest.approx(plain.difference, abs=1e-12)
    assert (macro.pairs, micro.pairs) == (56, 56)
    for comparison in (macro, micro):
        assert comparison.method == "crossed t"
        assert 0 < comparison.p_value < 1
        assert comparison.interval.low < comparison.difference < comparison.interval.high
    if groups:
        assert micro.p_value == plain.p_value
    else:
        assert macro.p_value == pytest.approx(plain.p_value, rel=0.5)


def test_a_comparison_over_tasks_is_planned_by_the_samples_that_it_counts_for():
    samples = [Sample(id=str(k), input="", metadata={"task": "law" if k < 90 else "tax"}) for k in range(100)]
    texts = ("overall(m by task, macro)", "overall(m by task, micro)")

    planned = contrasts_with_baselines(map(parse_contrast, texts), plan_of("v2", "v1").arms, samples)

    # Two tasks: 2^2 / (1 / 90 + 1 / 10) samples, and two groups.
    assert [contrast.slice_size for contrast in planned] == [36, 2]
    assert [contrast.slice for contrast in planned] == ["", ""]
