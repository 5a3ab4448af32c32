"""A stored run is evaluated, and loaded again as it was decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from experiment_builders import store_run

from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Contrast, Exclusion, Run, Sample
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.runs.load_run import load_run, load_verdicts
from pytest_crucible.runs.reporters import chapters, csv_report, jsonl_report
from pytest_crucible.store.runs import RunStore

SAMPLES = [Sample(id=f"q{k:02}", input=f"{k} + {k}") for k in range(20)]
CONTRAST = (Contrast(metric="exact", baseline="v1"),)
ARMS = {"v2": [True] * 16 + [False] * 4, "v1": [True] * 12 + [False] * 8}
TARGET = (parse_target("exact >= 0.70"),)


def conclude_run(store: RunStore, **facts: Any) -> Run:
    settings = {"alpha": 0.05, "strict": False, "interrupted": False, "amend": lambda verdict: None}
    return conclude(store, "first", **{**settings, **facts})


def test_a_lost_sample_is_not_a_wrong_answer(store):
    store_run(store, "first", SAMPLES, targets=TARGET, v2=["lost"] * 6 + [True] * 14)
    (experiment,) = conclude_run(store).experiments
    (result,) = experiment.targets

    assert (result.estimate.value, result.estimate.n, result.estimate.lost) == (1.0, 14, 6)


def test_lost_samples_that_could_overturn_a_verdict_leave_it_undecided(store):
    store_run(store, "first", SAMPLES, targets=TARGET, v2=["lost"] * 10 + [True] * 8 + [False] * 2)

    assert [verdict.state for verdict in conclude_run(store).verdicts] == ["undecided"]


def test_a_verdict_may_be_amended_before_it_is_stored(store):
    store_run(store, "first", SAMPLES, targets=TARGET, v2=[False] * 20)
    run = conclude_run(store, amend=lambda verdict: replace(verdict, state="met", reason="waived"))

    assert [(verdict.state, verdict.reason) for verdict in run.verdicts] == [("met", "waived")]
    assert [(verdict.state, verdict.reason) for verdict in load_run(store, "first").verdicts] == [("met", "waived")]


def test_a_run_is_loaded_with_the_numbers_and_verdicts_that_it_had(store):
    store_run(
        store,
        "first",
        SAMPLES,
        targets=TARGET,
        contrasts=CONTRAST,
        v2=[True] * 16 + [False] * 4,
        v1=[True] * 12 + ["lost"] * 8,
    )
    run = conclude_run(store)
    store.set_exit_status("first", 1)

    assert load_run(store, "first") == replace(run, exit_status=1)


def test_reading_a_run_changes_nothing(store):
    store_run(store, "first", SAMPLES, targets=TARGET, v2=[True] * 20)
    load_run(store, "first")

    assert store.run("first")["status"] == "running"
    assert store.verdicts(store.experiments("first")[0][0]) == {}


# -- reports that read the store ------------------------------------------------------------------------------------


def test_observations_are_reported_as_they_are_exported(store):
    store_run(store, "first", SAMPLES[:2], v2=[True, "lost"])
    run = conclude_run(store)

    assert len(csv_report(run).decode().splitlines()) == 1 + 2
    assert len(jsonl_report(run).decode().splitlines()) == 2
    assert b"q00" in csv_report(run)


def test_a_chapter_has_all_samples_with_scores_and_states(store):
    store_run(store, "first", SAMPLES[:3], contrasts=CONTRAST, v2=[True, False, "lost"], v1=[False, False, True])
    with chapters(conclude_run(store)) as (chapter,):
        assert chapter.metric == "exact"
        assert list(chapter.columns.ids) == ["q00", "q01", "q02"]
        assert [list(states) for states in chapter.columns.states] == [
            ["answered", "answered", "lost"],
            ["answered"] * 3,
        ]
        candidate, baseline = chapter.columns.scores["exact"]
        assert candidate[:2] == [1.0, 0.0]
        assert candidate[2] != candidate[2]
        assert baseline == [0.0, 0.0, 1.0]
        (exchange,) = chapter.read([0])
        assert [reply.text for (reply,) in exchange.replies] == ["v2: True", "v1: False"]


def test_a_verdict_that_depends_on_excluded_samples_is_undecided(store):
    excluded = Exclusion(reason="match train.jsonl", sample_ids=tuple(sample.id for sample in SAMPLES[:8]))
    store_run(store, "first", SAMPLES, targets=TARGET, contrasts=CONTRAST, exclusions=(excluded,), **ARMS)
    run = conclude_run(store)

    reason = "met on 20 samples, missed without the 8 that match train.jsonl"
    of_target, of_comparison = run.verdicts
    assert (of_target.state, of_target.reason) == ("undecided", reason)
    assert of_comparison.state == "met"
    assert load_run(store, "first").verdicts == run.verdicts


def test_a_run_that_is_loaded_for_its_verdicts_has_the_same_numbers_without_sections_and_plans(store):
    store_run(store, "first", SAMPLES, targets=TARGET, contrasts=CONTRAST, **ARMS)
    conclude_run(store)

    whole, (fast,) = load_run(store, "first"), load_verdicts(store, "first").experiments

    (planned,) = whole.experiments[0].comparisons
    assert planned.needed is not None
    assert fast.comparisons == (replace(planned, needed=None, detectable=None, detectable_falls=None),)
    assert (fast.targets, fast.estimates) == (whole.experiments[0].targets, whole.experiments[0].estimates)
    assert not fast.sections
    assert load_verdicts(store, "first").verdicts == whole.verdicts
