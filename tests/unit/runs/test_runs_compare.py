"""Arms of two stored runs are compared, sample by sample: which are paired, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest
from experiment_builders import store_run

from pytest_crucible.records import Contrast, Fingerprint, MetricFacts, Run, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.compare import StoredArm, decide_pairs, pair_experiments
from pytest_crucible.store.runs import RunStore

SAMPLES = [Sample(id=f"q{k:02}", input=k) for k in range(20)]
GOOD, POOR = [True] * 19 + [False], [True] * 5 + [False] * 15


def compare(
    store: RunStore, ours: str = "new", theirs: str = "old", ask: Any = lambda scored: ()
) -> tuple[Run, tuple[str, ...]]:
    sides = [StoredArm(*side.split(":")) for side in (ours, theirs)]
    return decide_pairs(store, *sides, pair_experiments(store, *sides, ask), alpha=0.05)


def test_the_difference_is_candidate_minus_baseline(store):
    store_run(store, "new", SAMPLES, v2=GOOD)
    store_run(store, "old", SAMPLES, v1=POOR)

    (better,), _ = (run := compare(store)[0]).experiments[0].comparisons, None
    (worse,) = compare(store, "old", "new")[0].experiments[0].comparisons
    assert (better.candidate, better.contrast.baseline) == ("v2", "v1")
    assert better.difference == pytest.approx(0.7)
    assert worse.difference == pytest.approx(-0.7)
    assert run.id == "new vs old"
    assert [verdict.state for verdict in run.verdicts] == ["met"]
    assert [verdict.state for verdict in compare(store, "old", "new")[0].verdicts] == ["missed"]


def test_nothing_is_stored(store):
    store_run(store, "new", SAMPLES, v2=GOOD)
    store_run(store, "old", SAMPLES, v1=POOR)
    compare(store)

    assert store.verdicts(store.experiments("new")[0][0]) == {}
    assert store.run("new")["status"] == "running"


CHANGED = [Sample(id="q00", input="another question"), *SAMPLES[1:]]


@pytest.mark.parametrize(
    ("ours", "theirs", "pairs", "note"),
    [
        # By their positions, the first ten answers of the candidate would be compared with the last ten of the baseline.
        ((SAMPLES, GOOD), (SAMPLES[:9:-1], GOOD[:9:-1]), 10, "10 samples in one run only"),
        ((SAMPLES[:-2], GOOD[:-2]), (SAMPLES[1:], GOOD[1:]), 17, "3 samples in one run only"),
        ((SAMPLES, GOOD), (CHANGED, GOOD), 19, "1 sample with another input in the other run"),
    ],
    ids=["order", "missing", "changed"],
)
def test_samples_are_paired_by_their_ids_and_inputs_and_others_are_counted(store, ours, theirs, pairs, note):
    store_run(store, "new", ours[0], v2=ours[1])
    store_run(store, "old", theirs[0], v1=theirs[1])
    run, notes = compare(store)

    (pair,) = run.experiments[0].comparisons
    assert (pair.pairs, pair.difference) == (pairs, 0.0)
    assert notes == (f"test_sums: {note} (first: q00), left out",)


@pytest.mark.parametrize(
    ("samples", "facts", "sentence"),
    [
        ([Sample(id=f"other {k}", input=k) for k in range(20)], {}, "the two runs have no sample in common"),
        (SAMPLES, {"nodeid": "test_sums.py::test_others"}, "new and old have no experiment in common"),
        (SAMPLES, {"metric": "other"}, "nothing was compared: new and old have no metric in common"),
    ],
    ids=["samples", "experiments", "metrics"],
)
def test_runs_that_have_nothing_in_common_are_refused(store, samples, facts, sentence):
    store_run(store, "new", SAMPLES, metrics=(MetricFacts(name="exact"), MetricFacts(name="other")), v2=GOOD)
    store_run(store, "old", samples, v1=POOR, **facts)

    with pytest.raises(SpecError, match=sentence):
        compare(store)


def test_a_lost_sample_is_lost_for_the_pair_and_not_a_wrong_answer(store):
    store_run(store, "new", SAMPLES, v2=["lost", *GOOD[1:]])
    store_run(store, "old", SAMPLES, v1=GOOD)
    (pair,) = compare(store)[0].experiments[0].comparisons

    assert (pair.pairs, pair.lost, pair.difference) == (19, 1, 0.0)


def test_repeats_that_only_one_run_has_are_left_out(store):
    store_run(store, "new", SAMPLES, repeats=3, v2=GOOD)
    store_run(store, "old", SAMPLES, repeats=2, v1=POOR)
    (experiment,) = compare(store)[0].experiments

    assert experiment.plan.repeats == 2
    assert experiment.comparisons[0].pairs == 20


# -- arms -----------------------------------------------------------------------------------------------------------


def test_an_arm_is_named_after_its_run(store):
    store_run(store, "new", SAMPLES, v2=POOR, v1=GOOD)
    run, _ = compare(store, "new:v1", "new:v2")

    assert run.id == "new:v1 vs new:v2"
    assert run.experiments[0].comparisons[0].difference == pytest.approx(0.7)
    assert [arm.role for arm in run.experiments[0].plan.arms] == ["candidate", "baseline"]


def test_two_runs_of_one_adapter_are_told_apart_by_their_ids(store):
    store_run(store, "aaaaaaaaaaaa", SAMPLES, v2=GOOD)
    store_run(store, "bbbbbbbbbbbb", SAMPLES, v2=GOOD)
    run, _ = compare(store, "aaaaaaaaaaaa", "bbbbbbbbbbbb")

    assert [arm.name for arm in run.experiments[0].plan.arms] == ["v2@aaaaaa", "v2@bbbbbb"]


@pytest.mark.parametrize(
    ("side", "sentence"),
    [
        ("new:v22", "run new has no arm 'v22': did you mean 'v2'?"),
        ("new:large", "run new has no arm 'large': it has v1, v2"),
    ],
)
def test_an_unknown_arm_is_refused_with_the_known_ones(store, side, sentence):
    store_run(store, "new", SAMPLES, v2=GOOD, v1=POOR)

    with pytest.raises(SpecError) as refused:
        compare(store, side, "new:v1")
    assert str(refused.value) == sentence


@pytest.mark.slow
def test_an_experiment_without_the_arm_is_skipped(store):
    store_run(store, "new", SAMPLES, v2=GOOD, v1=POOR)
    store_run(store, "new", SAMPLES, nodeid="test_sums.py::test_alone", v2=GOOD)
    run, _ = compare(store, "new", "new:v1")

    assert [experiment.plan.nodeid for experiment in run.experiments] == ["test_sums.py::test_sums"]


# -- comparisons ----------------------------------------------------------------------------------------------------


def test_requested_comparisons_win_over_those_of_the_suite_and_those_over_all_metrics(store):
    margin = Contrast(metric="exact", baseline="v0", alternative="non-inferior", margin=0.05)
    store_run(store, "new", SAMPLES, contrasts=(margin,), v2=GOOD)
    store_run(store, "plain", SAMPLES, v2=GOOD)
    store_run(store, "old", SAMPLES, v1=POOR)
    superior = Contrast(metric="exact", baseline="", alternative="superior")

    def contrasts(*arguments: Any) -> list[tuple[str, float | None]]:
        (experiment,) = compare(store, *arguments)[0].experiments
        assert {pair.contrast.baseline for pair in experiment.comparisons} == {"v1"}
        return [(pair.contrast.alternative, pair.contrast.margin) for pair in experiment.comparisons]

    assert contrasts("new", "old", lambda scored: (superior,)) == [("superior", None)]
    assert contrasts("new", "old") == [("non-inferior", 0.05)]
    assert contrasts("plain", "old") == [("regression", None)]


def test_p_values_are_adjusted_over_all_experiments(store):
    for name in ("test_a", "test_b", "test_c"):
        store_run(store, "new", SAMPLES, nodeid=f"test_sums.py::{name}", v2=GOOD)
        store_run(store, "old", SAMPLES, nodeid=f"test_sums.py::{name}", v1=POOR)
    run, _ = compare(store)

    assert run.family_size == 3
    first = run.experiments[0].comparisons[0]
    assert first.p_adjusted == pytest.approx(3 * first.p_value)


@pytest.mark.parametrize(
    ("part", "word"), [("function", "test function"), ("metrics", "metrics"), ("sampling", "sampling parameters")]
)
def test_changes_between_the_runs_are_named(store, part, word):
    facts = {"dataset": "", "function": "f", "metrics": "m", "sampling": "s"}
    store_run(store, "new", SAMPLES, fingerprint=Fingerprint(**facts), v2=GOOD)
    store_run(store, "old", SAMPLES, fingerprint=Fingerprint(**{**facts, part: "other"}), v1=POOR)

    assert compare(store)[1] == (
        f"test_sums: {word} changed between the runs, so a difference may come from that as well as from the arms",
    )
