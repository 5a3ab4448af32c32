"""crucible_memory = "pool": sessions with one candidate and baseline decide on the replies of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from experiment_builders import store_run

from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Comparison, Contrast, MetricFacts, Run, Sample
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.store.runs import RunStore

SAMPLES = [Sample(id=f"q{k:02}", input=f"{k} + {k}") for k in range(20)]
EXACT = Contrast(metric="exact", baseline="v1")
BINARY = MetricFacts(name="exact", kind="binary", low=0.0, high=1.0)
RIGHT, HALF, WRONG = [True] * 20, [True] * 10 + [False] * 10, [False] * 20


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStore]:
    where = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgresql")
    opened = RunStore(where)
    yield opened
    opened.close()


class Sessions:
    """Sessions on one store, each with replies of its own unless an arm is reused."""

    def __init__(self, store: RunStore) -> None:
        self.store, self.runs = store, 0

    def run(self, v2: Sequence[Any], v1: Sequence[Any] = RIGHT, *, memory: str = "pool", **facts: Any) -> Run:
        self.runs += 1
        run = f"r{self.runs}"
        arguments = {
            "contrasts": (EXACT,),
            "memory": memory,
            "metrics": (BINARY,),
            "started": float(self.runs),
            **facts,
        }
        store_run(self.store, run, SAMPLES, v2=v2, v1=v1, **arguments)
        return conclude(
            self.store, run, alpha=0.05, strict=False, interrupted=False, amend=lambda verdict: None, memory=memory
        )


@pytest.fixture
def sessions(store: RunStore) -> Sessions:
    return Sessions(store)


def comparison_of(run: Run) -> Comparison:
    [comparison] = run.experiments[0].comparisons
    return comparison


def verdict_of(run: Run) -> tuple[str, bool]:
    [verdict] = run.verdicts
    return verdict.state, verdict.proven


@pytest.mark.slow
def test_the_first_look_equals_a_session_without_memory(sessions):
    alone = comparison_of(sessions.run(HALF, memory="off", nodeid="test_sums.py::test_alone"))

    assert comparison_of(sessions.run(HALF)) == alone


def test_replies_of_all_sessions_are_averaged_sample_by_sample(sessions):
    sessions.run(RIGHT)
    second = comparison_of(sessions.run(HALF))

    assert (second.pairs, second.difference) == (20, -0.25)
    assert second.interval.level == pytest.approx(1 - 2 * 0.05 / 6)
    # Two sessions are rounds, whose noise the test counts: it is no test of the replies alone.
    assert second.p_value > 0.05
    assert (second.proof_p <= 0.05) == (second.interval.high < 0)


def test_a_proven_regression_stays_missed_until_the_adapter_changes(sessions):
    assert verdict_of(sessions.run(WRONG)) == ("missed", True)
    run = sessions.run(RIGHT)

    assert verdict_of(run) == ("missed", True)
    assert run.verdicts[0].reason == (
        "it was proven in run r1 of 2026-01-01, and stays missed until the adapter changes"
    )
    assert verdict_of(sessions.run(RIGHT, memory="off")) == ("met", False)


def test_sessions_without_memory_count_as_data_not_as_looks(sessions):
    sessions.run(WRONG, memory="off")
    run = sessions.run(RIGHT)

    assert comparison_of(run).difference == -0.5
    assert "was proven in run" not in run.verdicts[0].reason


def test_copied_replies_count_once_and_their_rerun_is_not_a_look(sessions):
    first = comparison_of(sessions.run(HALF))
    again = sessions.run(HALF, reused={"v2": "r1", "v1": "r1"})
    [look] = again.experiments[0].looks.values()

    assert (look.number, look.replies) == (1, (20, 20))
    assert comparison_of(again) == first
    [look] = sessions.run(RIGHT, reused={"v1": "r1"}).experiments[0].looks.values()
    assert (look.number, look.replies) == (2, (40, 20))


def test_a_stored_run_keeps_the_pool_of_its_time(sessions, store):
    sessions.run(HALF)
    second = sessions.run(RIGHT)
    sessions.run(WRONG)

    assert comparison_of(load_run(store, "r2")) == comparison_of(second)
    assert load_run(store, "r2").verdicts == second.verdicts


MARGIN = (Contrast(metric="exact", baseline="v1", alternative="non-inferior", margin=0.5),)


def test_a_margin_is_proven_at_the_level_of_the_look(sessions):
    runs = [sessions.run([*RIGHT[1:], False], contrasts=MARGIN, fixed=("rounds",)) for _ in range(2)]
    lower = [comparison_of(run).evidence.observed.lower for run in runs]

    assert comparison_of(runs[0]).difference == comparison_of(runs[1]).difference
    assert lower[1] < lower[0]


def test_two_sessions_prove_no_margin_of_others_like_them(sessions):
    runs = [sessions.run([*RIGHT[1:], False], contrasts=MARGIN) for _ in range(2)]

    assert [verdict_of(run) for run in runs] == [("met", True), ("undecided", False)]
    assert runs[1].verdicts[0].reason == (
        "2 sessions cannot prove this of others like them, whatever the replies, because rare ones may be far worse: it takes 4 "
        "or more; run more sessions, or declare fixed='rounds': the claim is then about these sessions alone"
    )


def test_sessions_that_differ_are_rounds_of_a_random_factor(sessions):
    """Half of the samples are lost on bad days: as repeats, three sessions would prove it."""
    days = [RIGHT, WRONG, RIGHT, WRONG]
    counted = [comparison_of(sessions.run(day)) for day in days][-1]
    fixed = [comparison_of(sessions.run(day, fixed=("rounds",), nodeid="test_sums.py::test_fixed")) for day in days][-1]

    assert counted.difference == fixed.difference == -0.5
    assert counted.p_value > 0.5 > 0.001 > fixed.p_value


def test_a_stored_baseline_is_one_session_of_its_own(sessions):
    """Its replies are not copied into the candidate's other sessions: pairs of a session would be those of the first alone."""
    sessions.run(HALF)
    runs = [sessions.run(HALF, reused={"v1": "r1"}) for _ in range(3)]
    [look] = runs[-1].experiments[0].looks.values()

    assert look.sessions == (4, 1)
    assert (comparison_of(runs[-1]).pairs, comparison_of(runs[-1]).difference) == (20, -0.5)
    assert (
        runs[-1]
        .experiments[0]
        .sections["reruns"]
        .view.notes[-1]
        .text.endswith("noise between 4 sessions is counted; not that of v1, whose replies are of one session")
    )


def test_a_relevant_difference_is_excluded_at_the_level_of_the_look(sessions):
    """Its bounds are those of a margin, and its p-value is that of a comparison without one."""
    claims = (
        Contrast(metric="exact", baseline="v1", relevant=0.5),
        Contrast(metric="exact", baseline="v1", alternative="non-inferior", margin=0.5),
        EXACT,
    )
    sessions.run(HALF, contrasts=claims, fixed=("rounds",))
    relevant, margin, plain = sessions.run(RIGHT, contrasts=claims, fixed=("rounds",)).experiments[0].comparisons

    assert relevant.evidence.observed.lower == margin.evidence.observed.lower
    assert relevant.evidence.observed.p_value == relevant.p_value == plain.p_value
    assert (relevant.interval.low, relevant.interval.high) == (margin.interval.low, margin.interval.high)
    assert relevant.interval.level == margin.interval.level


def test_a_target_that_must_be_proven_is_decided_on_all_replies_of_the_candidate(sessions, store):
    targets = (parse_target("exact >= 0.60", decide="bound"), parse_target("exact >= 0.50"))
    sessions.run(RIGHT, targets=targets)
    run = sessions.run(HALF, targets=targets)
    bound, point = run.experiments[0].targets

    assert (bound.estimate.value, point.estimate.value) == (0.75, 0.5)
    assert bound.estimate.interval.level == pytest.approx(1 - 0.05 / 6)
    assert load_run(store, "r2").experiments[0].targets == (bound, point)
    notes = [note.text for note in run.experiments[0].sections["reruns"].view.notes]
    assert (
        "exact >= 0.60: decided on the replies of all sessions (40 of v2); look 2, so its one-sided bound is at 99.17 %; "
        "noise between 2 sessions is counted" in notes
    )


def test_lost_samples_stay_lost_in_the_pool(sessions):
    sessions.run(["lost", *RIGHT[1:]])
    second = comparison_of(sessions.run(RIGHT))

    assert (second.pairs, second.lost) == (20, 1)
    assert second.evidence.worst.value == pytest.approx(-0.5 / 20)


def test_a_session_that_was_cut_short_is_not_pooled(sessions, store):
    store_run(store, "killed", SAMPLES, contrasts=(EXACT,), v2=WRONG, v1=RIGHT, started=99.0)

    assert comparison_of(sessions.run(RIGHT)).difference == 0


def test_a_resumed_session_is_one_look_with_the_replies_of_the_killed_one(sessions, store):
    store_run(store, "killed", SAMPLES, contrasts=(EXACT,), v2=HALF, v1=RIGHT, started=99.0)
    run = sessions.run(HALF, reused={"v2": "killed", "v1": "killed"})
    [look] = run.experiments[0].looks.values()

    assert (look.number, look.replies, comparison_of(run).difference) == (1, (20, 20), -0.5)


def test_a_pool_of_one_session_notes_that_noise_between_days_is_missing(sessions):
    [note] = sessions.run(HALF).experiments[0].sections["reruns"].view.notes

    assert note.text == (
        "exact: decided on this session (20 of v2, 20 of v1); look 1, so the interval is at 95.00 %; "
        "noise between sessions is not counted, because there is one"
    )


def test_reports_describe_the_pool(sessions):
    sessions.run(HALF)
    [outcome] = [section for name, section in sessions.run(RIGHT).experiments[0].sections.items() if name == "reruns"]

    assert [note.text for note in outcome.view.notes] == [
        "v1: comparison 2 of v2 with this baseline since 2026-01-01",
        "exact: decided on the replies of all sessions (40 of v2, 40 of v1); look 2, so the interval is at 98.33 %; "
        "noise between 2 sessions is counted",
    ]
