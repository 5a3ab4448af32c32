"""Diversity of an ensemble: its members beside it, and pair by pair."""

from __future__ import annotations

import pytest

from pytest_crucible import stats
from pytest_crucible.analyse.analysis import AnalysisInputs, score_table
from pytest_crucible.features.ensembles import section as diversity
from pytest_crucible.features.ensembles.section import ensemble_facts
from pytest_crucible.records import Arm, ArmOutcomes, Fingerprint, Lost, MetricFacts, Plan, ScoreColumns, Unit
from pytest_crucible.sections.inputs import NoStoredDetails, section_inputs

EXACT = MetricFacts(name="exact", kind="binary", low=0.0, high=1.0)
WRONG = MetricFacts(name="wrong", kind="binary", low=0.0, high=1.0, direction="lower")
V1, V2, TRIO = [True, True, False, False], [True, False, True, False], [True, True, True, False]


def column(values, repeats=1) -> ScoreColumns:
    """Values by unit; "none" is one that was not observed."""
    kept_positions = [k for k, value in enumerate(values) if value != "none"]
    return ScoreColumns(
        positions=[k // repeats for k in kept_positions],
        repeats=[k % repeats for k in kept_positions],
        values=[None if values[k] is None else float(values[k]) for k in kept_positions],
        is_bool=[isinstance(values[k], bool) for k in kept_positions],
    )


def answers(*, failures=None, lost=(), n=4, repeats=1, **scores) -> ArmOutcomes:
    """Metrics by name; `exact_v1` is exact[v1]."""
    units = [k for k in range(n * repeats) if k not in lost]
    return ArmOutcomes(
        positions=[k // repeats for k in units],
        repeats=[k % repeats for k in units],
        failures=[(failures or {}).get(k) for k in units],
        skipped=[False] * len(units),
        scores={
            name.replace("_v1", "[v1]").replace("_v2", "[v2]"): column(score, repeats) for name, score in scores.items()
        },
        lost=[Lost(Unit(k // repeats, 0, 0, k % repeats), None, "error") for k in lost],
    )


def diversities(*arms: ArmOutcomes, metrics=(EXACT,), groups=None, n=4, repeats=1) -> tuple[diversity.Diversity, ...]:
    plan = Plan(
        nodeid="t.py::t", path="t.py", line=1, dataset="d", dataset_sha256="d", planned=n, selected=n, groups=None,
        repeats=repeats, metrics=(*metrics, *ensemble_facts(metrics, ["v1", "v2"])), targets=(),
        contrasts=(), open_metrics=False,
        arms=(
            Arm(name="trio", role="candidate", adapter="ensemble:trio", identity="trio", members=("v1", "v2")),
            *[Arm(name="v1", role="baseline", adapter="v1", identity="v1")][: len(arms) - 1],
        ),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
    )  # fmt: skip
    analysis_inputs = AnalysisInputs(
        plan=plan, answers=arms, groups=groups or [None] * n, finished=True, known_kinds={}
    )
    inputs = section_inputs(analysis_inputs, score_table(analysis_inputs), NoStoredDetails(), alpha=0.05)
    return diversity.compute(inputs) or ()


def test_accuracies_of_members_and_pairs_are_computed():
    [diversity] = diversities(answers(exact=TRIO, exact_v1=V1, exact_v2=V2))
    [pair] = diversity.pairs

    assert (diversity.arm, diversity.metric) == ("trio", "exact")
    assert (diversity.n, diversity.best, diversity.note) == (4, "v1", "")
    assert {name: accuracy.value for name, accuracy in diversity.accuracies.items()} == {"v1": 0.5, "v2": 0.5}
    assert (diversity.oracle.value, diversity.ensemble.value) == (0.75, 0.75)
    assert (pair.first, pair.second) == ("v1", "v2")
    assert (pair.n, pair.disagreement.value, pair.double_fault.value) == (4, 0.5, 0.25)
    assert pair.error_correlation.value == 0.0
    assert diversity.oracle.interval == stats.wilson_interval(3, 4)


def test_a_metric_where_lower_is_better_is_reversed():
    scores = {"exact": TRIO, "exact_v1": V1, "exact_v2": V2}
    flipped = {name.replace("exact", "wrong"): [not value for value in values] for name, values in scores.items()}
    result = diversities(answers(**scores, **flipped), metrics=(EXACT, WRONG))

    assert [entry.metric for entry in result] == ["exact", "wrong"]
    assert (result[0].oracle, result[0].pairs, result[0].best) == (result[1].oracle, result[1].pairs, result[1].best)


def test_samples_without_a_reply_of_every_member_are_left_out():
    [diversity] = diversities(answers(exact=TRIO, exact_v1=V1, exact_v2=["none", "none", True, False]))

    assert (diversity.n, diversity.pairs[0].n) == (2, 2)
    assert diversity.note.startswith("only samples that every member answered")


def test_without_a_common_sample_the_values_have_a_note():
    [diversity] = diversities(
        answers(exact=TRIO, exact_v1=[*V1[:2], "none", "none"], exact_v2=["none", "none", *V2[2:]])
    )

    assert (diversity.n, diversity.best) == (0, None)
    assert (diversity.oracle.value, diversity.oracle.note) == (None, "no sample was answered by all")


@pytest.mark.parametrize("scores", [{"exact": TRIO}, {"exact": TRIO, "exact_v1": V1}])
def test_diversity_needs_scores_of_two_members(scores):
    assert diversities(answers(**scores)) == ()


def test_repeats_and_groups_change_the_intervals():
    twice = {
        name: [value for value in values for _ in range(2)]
        for name, values in (("exact", TRIO), ("exact_v1", V1), ("exact_v2", V2))
    }
    [repeated] = diversities(answers(repeats=2, **twice), repeats=2)
    many = {name: values * 6 for name, values in (("exact", TRIO), ("exact_v1", V1), ("exact_v2", V2))}
    [grouped] = diversities(answers(n=24, **many), n=24, groups=[f"g{k // 4}" for k in range(24)])

    assert (repeated.n, repeated.pairs[0].disagreement.value) == (4, 0.5)
    assert grouped.oracle.interval.method == "wider of korn-graubard and gaffke"
