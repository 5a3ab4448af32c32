"""The progress of an unfinished run: each unit counts once, in its place, and nothing decides."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_runs import LiveRun, live_run
from plan_builders import plan_of

from pytest_crucible.features.view.live import unit_counts
from pytest_crucible.features.view.live.progress import ArmProgress, ProgressReader, RunProgress
from pytest_crucible.records import BUDGET, MetricFacts, PlannedVariant, PromptForm
from pytest_crucible.store.runs import RunStore

YES_OR_NO = MetricFacts(name="right", kind="binary", low=0.0, high=1.0)


@pytest.fixture(params=["sqlite", "postgresql"])
def path(request, tmp_path):
    """A file, or a URL."""
    return tmp_path / "runs.db" if request.param == "sqlite" else request.getfixturevalue("postgresql")


def read(live: LiveRun, reader: ProgressReader | None = None) -> RunProgress:
    live.commit()
    with live.store.connect() as connection:
        return (reader or ProgressReader(live.run)).read(connection)


def arms(live: LiveRun) -> tuple[ArmProgress, ...]:
    return read(live).experiments[0].arms


def test_answered_failed_skipped_and_lost_units_are_counted_apart(path):
    with live_run(path) as live:
        live.add(0, scores={"right": True})
        live.add(1, failure="truncated")
        live.add(2, skipped=True)
        live.add(3, lost="error")
        live.add(4, lost_scores={"right": "scorer"})
        candidate, baseline = arms(live)

    assert candidate.counts.answered == 2
    assert candidate.counts.failed == {"truncated": 1}
    assert candidate.counts.skipped == 1
    assert candidate.counts.lost == {"error": 1}
    assert candidate.counts.lost_scores == {"scorer": 1}
    assert (candidate.counts.done, candidate.planned) == (5, 10)
    assert baseline.counts.done == 0


def test_an_experiment_that_has_not_begun_is_planned(path):
    with closing(RunStore(str(path))) as store:
        store.begin_run(
            "run1", started="2026-01-01T00:00:00+00:00", seed=0, alpha=0.05, correction="holm", environment={}
        )
        store.enter_plan("run1", plan_of("v2", n=7))
        with store.connect() as connection:
            progress = ProgressReader("run1").read(connection)

    assert (progress.done, progress.planned) == (0, 7)


@pytest.mark.parametrize(
    ("fields", "planned"),
    [
        ({"repeats": 3}, 30),
        ({"repeats": 6, "rounds": 2}, 60),
        ({"prompts": (PromptForm(name="a", sha256="a"), PromptForm(name="b", sha256="b"))}, 20),
    ],
)
def test_all_replies_to_a_sample_are_planned(path, fields, planned):
    with live_run(path, **fields) as live:
        assert arms(live)[0].planned == planned


def test_variants_count_as_replies_and_not_in_means(path):
    variant = PlannedVariant(name="she", sha256="she", samples=10)
    with live_run(path, n=10, variants=(variant,)) as live:
        live.add(0, scores={"right": True})
        live.add(0, variant=1, scores={"right": False})
        candidate, _ = arms(live)

    assert (candidate.counts.done, candidate.planned) == (2, 20)
    assert [(mean.metric, mean.mean, mean.n) for mean in candidate.means] == [("right", 1.0, 1)]


def test_the_forms_of_a_prompt_share_a_mean(path):
    prompts = (PromptForm(name="a", sha256="a"), PromptForm(name="b", sha256="b"))
    with live_run(path, prompts=prompts) as live:
        live.add(0, scores={"right": True})
        live.add(0, variant=1, scores={"right": False})
        candidate, _ = arms(live)

    assert [(mean.mean, mean.n) for mean in candidate.means] == [(0.5, 2)]


def test_a_failed_reply_has_the_worst_score_and_a_scored_one_keeps_its_own(path):
    with live_run(path, metrics=(YES_OR_NO,)) as live:
        live.add(0, scores={"right": True})
        live.add(1, failure="truncated")
        live.add(2, failure="assertion", scores={"right": True})
        live.add(3, lost="error")
        live.add(4, scores={"right": None})
        candidate, _ = arms(live)

    assert [(mean.mean, mean.n) for mean in candidate.means] == [(2 / 3, 3)]


def test_the_worst_score_of_a_fault_is_1(path):
    with live_run(path, metrics=(MetricFacts(name="wrong", direction="lower"),)) as live:
        live.add(0, scores={"wrong": False})
        live.add(1, failure="truncated")
        candidate, _ = arms(live)

    assert [(mean.mean, mean.n) for mean in candidate.means] == [(0.5, 2)]


def test_without_a_worst_score_failures_are_in_no_mean(path):
    with live_run(path) as live:
        live.add(0, scores={"latency": 2.0})
        live.add(1, failure="truncated")
        candidate, _ = arms(live)

    assert [(mean.mean, mean.n) for mean in candidate.means] == [(2.0, 1)]


def test_texts_and_parts_of_metrics_have_no_mean(path):
    with live_run(path, metrics=(MetricFacts(name="spans", is_part=True),)) as live:
        live.add(0, scores={"label": "polite", "spans": 3.0})
        candidate, _ = arms(live)

    assert candidate.means == ()


def test_requests_tokens_and_limits_come_from_events_which_are_read_once(path):
    with live_run(path) as live:
        reader = ProgressReader(live.run)
        live.tell("request.stop", at=10.0, seconds=1.0, input_tokens=5, output_tokens=7, cost_usd=0.5)
        live.tell("request.stop", at=11.0, seconds=1.0, error="429")
        read(live, reader)
        live.tell("request.retry", at=12.0)
        live.tell("limiter.wait", at=13.0, seconds=2.0)
        live.tell("request.stop", at=14.0, seconds=1.0, input_tokens=5, output_tokens=7, cost_usd=0.5)
        table = read(live, reader).experiments[0].usage

    [row] = table.rows
    cells = dict(zip(table.heads, row.cells, strict=True))
    assert (cells["requests"], cells["tokens in"], cells["out"], cells["cost"]) == ("3", "10", "14", "$1.00")
    assert row.below == "1 failed (429 x 1); 1 retried; rate limit wait: p50 0 s, p95 1.80 s"


def test_an_event_that_is_committed_after_one_with_a_higher_number_is_read(postgresql):
    insert = """
        INSERT INTO events (id, run, experiment, arm, sample, epoch, name, at, seconds)
        VALUES (:id, 'run1', 't.py::t', 'v2', '', 0, 'request.stop', 1.0, 1.0)
    """
    with live_run(postgresql) as live:
        reader = ProgressReader(live.run)
        live.store.execute(insert, id=7)
        read(live, reader)
        live.store.execute(insert, id=6)
        table = read(live, reader).experiments[0].usage

    assert table.rows[0].cells[1] == "2"


def test_spent_budgets_are_named(path):
    with live_run(path) as live:
        live.tell(BUDGET, budget="$5", usd=1.0, tokens=0, requests=3, said="$1.00 of $5.00")
        progress = read(live)

    assert progress.budgets == ("t.py::t: $1.00 of $5.00",)


def test_the_time_of_the_last_write_is_that_of_the_last_reply_or_event(path):
    with live_run(path) as live:
        live.add(0)
        live.tell("cache.hit", at=5e9)
        assert read(live).last == 5e9


def test_copies_that_are_sent_again_are_no_longer_counted(path):
    with live_run(path, "v2") as live:
        reader = ProgressReader(live.run)
        for position in range(10):
            live.add(position)
        live.commit()
        live.store.execute("UPDATE arms SET reused_from = 'run0', reused_answers = 10")
        before = read(live, reader).experiments[0].arms[0]
        live._writer.remove_copied(live.arms[0][0], 3, 0)
        after = read(live, reader).experiments[0].arms[0]

    assert (before.counts.done, before.copied, before.source) == (10, 10, "run0")
    assert (after.counts.done, after.copied) == (9, 9)


UNITS = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 1), st.integers(0, 1), st.sampled_from(["answer", "fail", "lose", "skip"])),
    unique_by=lambda unit: unit[:3],
    max_size=40,
)  # fmt: skip


@given(units=UNITS, looks=st.sets(st.integers(0, 40)))
@settings(max_examples=25)
def test_counts_do_not_depend_on_when_they_were_read(tmp_path_factory, units, looks):
    with (
        pytest.MonkeyPatch.context() as patch,
        live_run(tmp_path_factory.mktemp("store") / "runs.db", repeats=2, n=12) as live,
    ):
        # Positions are settled one by one.
        patch.setattr(unit_counts, "_SETTLED_AT", 0)
        patch.setattr(unit_counts, "_POSITIONS", 2)
        reader = ProgressReader(live.run)
        for number, (position, arm, repeat, end) in enumerate(units):
            fields = {"fail": {"failure": "timeout"}, "lose": {"lost": "error"}, "skip": {"skipped": True}}.get(end, {})
            live.add(position, arm, repeat, scores={} if fields else {"right": position % 2 == 0}, **fields)
            if number in looks:
                read(live, reader)

        assert read(live, reader) == read(live)
