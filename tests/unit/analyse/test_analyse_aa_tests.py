"""A/A tests: scores of a stored experiment that are dealt to two arms, and their declaration."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.analyse.run_statistics import aa_tests
from pytest_crucible.records import AATest, Arm, ArmOutcomes, Fingerprint, MetricFacts, Plan, ScoreColumns

NAMES = ("v2", "v1", "v0")


def arm(values: np.ndarray, *, metric: str = "m") -> ArmOutcomes:
    """Scores of samples x repeats; NaN was never scored."""
    units = [(i, k) for i in range(len(values)) for k in range(values.shape[1])]
    kept_units = [unit for unit in units if not np.isnan(values[unit])]
    columns = ScoreColumns(
        positions=[i for i, _ in kept_units],
        repeats=[k for _, k in kept_units],
        values=[float(values[unit]) for unit in kept_units],
        is_bool=[False for _ in kept_units],
    )
    return ArmOutcomes(
        positions=[i for i, _ in units], repeats=[k for _, k in units], failures=[None] * len(units),
        skipped=[False] * len(units), scores={metric: columns}, lost=[], labels=frozenset(),
    )  # fmt: skip


def dealt(*arms: ArmOutcomes, samples: int, repeats: int = 1, groups=None, metrics=()) -> tuple[AATest, ...]:
    plan = Plan(
        nodeid="t.py::t", path="t.py", line=1, dataset="d", dataset_sha256="d", planned=samples, selected=samples,
        groups=None, repeats=repeats, metrics=tuple(metrics), targets=(), contrasts=(), open_metrics=True,
        arms=tuple(
            Arm(name=name, role="baseline" if k else "candidate", adapter=name, identity=name)
            for k, name in enumerate(NAMES[: len(arms)])
        ),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
    )  # fmt: skip
    analysis_inputs = AnalysisInputs(
        plan=plan, answers=arms, groups=groups or [None] * samples, finished=True, known_kinds={}
    )
    return aa_tests(analysis_inputs, alpha=0.05, replicates=50, seed=1)


RNG = np.random.default_rng(5)
SCORES = MetricFacts(name="m", kind="bounded", low=0.0, high=1.0)


def test_one_arm_without_repeats_offers_nothing():
    assert dealt(arm(RNG.random((20, 1))), samples=20) == ()


def test_repeats_of_each_arm_and_each_pair_of_arms_are_dealt():
    analysis = dealt(*(arm(RNG.random((20, 3))) for _ in NAMES), samples=20, repeats=3, metrics=[SCORES])

    assert [entry.dealt for entry in analysis] == [
        "v2, 3 repeats", "v1, 3 repeats", "v0, 3 repeats",
        "v2 and v1, swapped", "v2 and v0, swapped", "v1 and v0, swapped",
    ]  # fmt: skip
    assert {entry.method for entry in analysis} == {"sign flips"}
    assert all(entry.holds for entry in analysis)


def test_samples_that_lack_a_score_are_left_out_and_counted():
    values = RNG.random((20, 2))
    values[3, 1] = values[7, 0] = np.nan

    (item,) = dealt(arm(values), samples=20, repeats=2, metrics=[SCORES])

    assert (item.samples, item.left_out) == (18, 2)


def test_too_few_whole_samples_are_said_and_not_tried():
    values = np.full((20, 2), np.nan)
    values[0] = 0.5

    (item,) = dealt(arm(values), samples=20, repeats=2, metrics=[SCORES])

    assert (item.rate, item.holds, item.samples) == (None, None, 1)
    assert "fewer than two samples" in item.note


@pytest.mark.parametrize(("groups", "answered"), [(10, True), (4, False)])
def test_groups_are_honoured(groups, answered):
    labels = [f"g{i % groups}" for i in range(20)]

    (item,) = dealt(arm(RNG.random((20, 2))), samples=20, repeats=2, groups=labels, metrics=[SCORES])

    assert (item.clusters, item.method) == (groups, "sign flips")
    assert (item.rate is not None) == answered
    assert bool(item.note) != answered
