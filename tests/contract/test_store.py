"""The contract of every run store: the same tests for an SQLite file and a PostgreSQL server."""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.load_decisions import load_decisions as load_decisions_of_run
from pytest_crucible.features.provenance.tables import trace_events
from pytest_crucible.records import (
    Arm,
    CachedReplies,
    Contrast,
    Draws,
    Event,
    Fingerprint,
    Lost,
    MetricFacts,
    ModelCall,
    Observation,
    Outcome,
    Plan,
    Reply,
    ReusedReplies,
    Sample,
    Target,
    Unit,
    Verdict,
)
from pytest_crucible.records.errors import SpecError, StoreError
from pytest_crucible.store import prune, schema, tables
from pytest_crucible.store.conversations import load_conversations
from pytest_crucible.store.decisions import add_decision, load_decisions, set_decision
from pytest_crucible.store.events import load_events
from pytest_crucible.store.history import add_tag, list_runs
from pytest_crucible.store.outcomes import load_outcomes, reply_texts
from pytest_crucible.store.prune import clear, find_prunable, redact_again
from pytest_crucible.store.reused_outcomes import NewScores, cached_replies, copy_outcomes, find_arm, reused_replies
from pytest_crucible.store.runs import RunStore, UnknownRunError
from pytest_crucible.store.samples import group_names, samples
from pytest_crucible.store.table import Table

SAMPLES = tuple(Sample(id=f"q{k}", input={"question": k}, expected=k, group="ab"[k % 2]) for k in range(4))
PLAN = Plan(
    nodeid="test_math.py::test_sums",
    path="test_math.py",
    line=7,
    dataset="sums",
    dataset_sha256="d" * 64,
    planned=4,
    selected=4,
    groups=2,
    repeats=2,
    arms=(
        Arm(name="v2", role="candidate", adapter="v2", identity="i2", parameters={"temperature": 0.5, "stop": ["\n"]}),
        Arm(name="v1", role="baseline", adapter="v1", identity="i1", simulated=True, stored_run="abc"),
    ),
    metrics=(MetricFacts(name="seconds", direction="lower", low=0.0), MetricFacts(name="exact", kind="binary")),
    targets=(
        Target(text="exact >= 0.9", statistic="mean", metric="exact", relation=">=", value=0.9, decide="bound"),
        Target(text="p95(seconds) <= 2", statistic="quantile", metric="seconds", relation="<=", value=2, quantile=0.95),
        Target(
            text="rate(seconds <= 1) >= 0.5", statistic="rate", metric="seconds", relation=">=", value=0.5,
            inner_relation="<=", inner_value=1.0,
        ),
    ),
    contrasts=(
        Contrast(metric="exact", baseline="v1"),
        Contrast(metric="exact", baseline="v1", alternative="non-inferior", margin=0.05),
    ),
    fingerprint=Fingerprint(dataset="d", function="f", metrics="m", sampling="s"),
    open_metrics=True,
)  # fmt: skip


@pytest.fixture
def store(location: str) -> Iterator[RunStore]:
    opened = RunStore(location)
    # Rows are read from the database even where this process has written them.
    opened.written.discard()
    yield opened
    opened.close()


def begin(store: RunStore, run: str) -> None:
    store.begin_run(run, started="2026-01-01", seed=1, alpha=0.05, correction="holm", git=None, environment={"os": "x"})


def enter_experiment(store: RunStore, run: str = "run1", fingerprint: str = "same") -> tuple[int, int]:
    """Keys of an experiment with one arm, and of that arm."""
    begin(store, run)
    experiment = store.add_experiment(run, PLAN, SAMPLES)
    return experiment, store.add_arm(experiment, 0, "v2", fingerprint)


def answer(position: int, repeat: int = 0, text: str = "4") -> tuple[Outcome, list[Observation], list[Lost]]:
    outcome = Outcome(Unit(position, 0, 0, repeat), reply=Reply(text=text, input_tokens=3, latency_s=0.25), started=1.5)
    return outcome, [Observation(Unit(position, 0, 0, repeat), "exact", True)], []


def write(store: RunStore, arm: int, *units: tuple[Outcome, list[Observation], list[Lost]]) -> None:
    writer = store.writer()
    for outcome, observations, lost in units:
        writer.add(outcome, arm, observations, lost)
    writer.close()


def rows(store: RunStore, table: Table, arm: int) -> int:
    return int(store.scalar(f"SELECT COUNT(*) FROM {table.name} WHERE arm = :arm", arm=arm))


# -- runs and experiments -----------------------------------------------------------------------------------------


def test_a_loaded_plan_equals_the_stored_one(store):
    begin(store, "run1")
    store.enter_plan("run1", PLAN)

    [(_, plan, finished)] = store.experiments("run1")
    assert plan == PLAN
    assert finished is False


def test_a_run_is_found_by_the_beginning_of_its_id_and_the_latest_one_without(store):
    for run, started in (("abc1", "2026-01-02"), ("abd2", "2026-01-01")):
        store.begin_run(run, started=started, seed=1, alpha=0.05, correction="holm", git=None, environment={})

    assert store.find_run() == "abc1"
    assert store.find_run("abd") == "abd2"
    with pytest.raises(SpecError, match="'ab' matches 2 runs"):
        store.find_run("ab")
    with pytest.raises(SpecError, match="no run that begins with 'x_'"):
        store.find_run("x_")


def test_a_store_without_runs_says_so(store):
    with pytest.raises(SpecError, match="no runs yet"):
        store.find_run()


def test_a_run_is_entered_once(store):
    begin(store, "run1")
    store.begin_run("run1", started="later", seed=2, alpha=0.1, correction="holm", git=None, environment={})

    assert (store.run("run1")["started"], store.run("run1")["seed"]) == ("2026-01-01", 1)
    assert store.run("run1")["environment"] == {"os": "x"}
    assert store.run("run1")["git"] is None


def test_a_run_ends(store):
    begin(store, "run1")
    store.end_run("run1", finished="2026-01-02", status="finished")
    store.set_exit_status("run1", 1)

    ended = store.run("run1")
    assert (ended["finished"], ended["status"], ended["exit_status"]) == ("2026-01-02", "finished", 1)


def test_entering_again_gives_the_same_keys(store):
    first = enter_experiment(store)

    assert enter_experiment(store) == first


def test_experiments_stand_in_the_order_of_entry(store):
    begin(store, "run1")
    names = ["z", "a", "m"]
    for name in names:
        store.enter_plan("run1", replace(PLAN, nodeid=name))

    assert [plan.nodeid for _, plan, _ in store.experiments("run1")] == names


def test_an_experiment_is_unfinished_until_finish_is_called(store):
    experiment, _ = enter_experiment(store)
    before = store.experiments("run1")[0][2]
    store.finish_experiment(experiment)

    assert (before, store.experiments("run1")[0][2]) == (False, True)


def test_a_plan_without_arms_never_began(store):
    begin(store, "run1")
    planned = store.add_experiment("run1", PLAN, SAMPLES)
    before = store.has_arms(planned)
    store.add_arm(planned, 0, "v2", "")

    assert (before, store.has_arms(planned)) == (False, True)


def test_samples_of_a_dataset_are_stored_once(store):
    enter_experiment(store, "run1")
    enter_experiment(store, "run2")

    assert group_names(store, PLAN.dataset_sha256) == ["a", "b", "a", "b"]
    stored = samples(store, PLAN.dataset_sha256, [1, 3])
    assert {position: sample.id for position, sample in stored.items()} == {1: "q1", 3: "q3"}


def test_an_input_that_is_not_json_is_kept_as_its_repr(store):
    begin(store, "run1")
    store.add_experiment("run1", PLAN, [Sample(id="q", input={1, 2})])

    assert store.scalar("SELECT input FROM samples") == '"{1, 2}"'


def test_verdicts_are_stored_once(store):
    experiment, _ = enter_experiment(store)
    verdict = Verdict(nodeid="n", subject="s", kind="target", state="met", proven=True, reason="r")
    store.add_verdicts(experiment, [verdict])
    store.add_verdicts(experiment, [replace(verdict, state="missed")])

    [row] = store.rows("SELECT subject, state, proven FROM verdicts")
    assert row == ("s", "met", True)


# -- kinds --------------------------------------------------------------------------------------------------------


def test_kinds_come_from_the_latest_earlier_run_that_has_them(store):
    first, second, third, fourth = (enter_experiment(store, f"run{k}")[0] for k in range(4))
    store.set_kinds(first, {"exact": "binary"})
    store.set_kinds(second, {"exact": "unbounded"})
    store.set_kinds(fourth, {"exact": "text"})

    assert store.known_kinds(PLAN, before=third) == {"exact": "unbounded"}
    assert store.known_kinds(PLAN, before=second) == {"exact": "binary"}
    assert store.known_kinds(PLAN, before=first) == {}
    assert store.known_kinds(replace(PLAN, nodeid="another"), before=fourth) == {}


@pytest.mark.parametrize(
    ("part", "kinds"),
    [("dataset", {"exact": "unbounded"}), ("sampling", {"exact": "unbounded"}), ("metrics", {}), ("function", {})],
)
def test_kinds_are_forgotten_when_what_makes_them_has_changed(store, part, kinds):
    """A metric that gave numbers may give bools now; other questions or another timeout make no other kind."""
    store.set_kinds(enter_experiment(store, "run0")[0], {"exact": "unbounded"})
    now, _ = enter_experiment(store, "run1")

    changed = replace(PLAN, fingerprint=replace(PLAN.fingerprint, **{part: "changed"}))
    assert store.known_kinds(changed, before=now) == kinds


# -- answers ------------------------------------------------------------------------------------------------------


def test_every_kind_of_unit_is_loaded_as_it_was_stored(store):
    experiment, arm = enter_experiment(store)
    write(
        store, arm,
        (Outcome(Unit(0, 0, 0, 0), reply=Reply(text="4")),
         [Observation(Unit(0, 0, 0, 0), "exact", True), Observation(Unit(0, 0, 0, 0), "seconds", 0.5)], []),
        (Outcome(Unit(0, 0, 0, 1), reply=Reply(text="5")),
         [Observation(Unit(0, 0, 0, 1), "exact", None, "no number"), Observation(Unit(0, 0, 0, 1), "topic", "sums")], []),
        (Outcome(Unit(1, 0, 0, 0), failure="timeout", detail="1 s"), [], []),
        (Outcome(Unit(1, 0, 0, 1), skipped=True), [], []),
        (Outcome(Unit(2, 0, 0, 0), lost="error", detail="503"), [], [Lost(Unit(2, 0, 0, 0), None, "error", "503")]),
        (Outcome(Unit(3, 0, 0, 0), reply=Reply(text="")), [], [Lost(Unit(3, 0, 0, 0), "exact", "scorer", "raised")]),
    )  # fmt: skip

    answers = load_outcomes(store, experiment, 0)
    units = zip(answers.positions, answers.repeats, answers.failures, answers.skipped, strict=True)
    assert sorted(units) == [
        (0, 0, None, False), (0, 1, None, False), (1, 0, "timeout", False), (1, 1, None, True), (3, 0, None, False),
    ]  # fmt: skip
    exact = answers.scores["exact"]
    assert sorted(zip(exact.positions, exact.repeats, exact.values, exact.is_bool, strict=True)) == [
        (0, 0, 1.0, True),
        (0, 1, None, False),
    ]
    assert list(answers.scores["seconds"].values) == [0.5]
    assert answers.labels == {"topic"}
    assert sorted(answers.lost, key=lambda item: item.unit.position) == [
        Lost(Unit(2, 0, 0, 0), None, "error", "503"),
        Lost(Unit(3, 0, 0, 0), "exact", "scorer", "raised"),
    ]


def test_an_arm_without_answers_is_empty(store):
    experiment, _ = enter_experiment(store)

    answers = load_outcomes(store, experiment, 0)
    assert (list(answers.positions), dict(answers.scores), list(answers.lost)) == ([], {}, [])


def test_rows_of_this_process_equal_those_of_the_database(store, location):
    """Written in another order than that of its keys."""
    experiment, arm = enter_experiment(store)
    with contextlib.closing(RunStore(location)) as own:
        units = [answer(position, repeat) for position in (3, 0, 2) for repeat in (1, 0)]
        write(own, arm, *units)
        of_arm = (rows(own, schema.replies, arm), rows(own, schema.observations, arm))
        written, answers = own.written.outcomes(arm, lambda: of_arm), load_outcomes(own, experiment, 0)

    stored = load_outcomes(store, experiment, 0)
    assert of_arm == (6, 6)
    assert written is not None
    assert list(answers.positions) == [0, 0, 2, 2, 3, 3] == sorted(stored.positions)
    assert list(answers.repeats) == list(answers.scores["exact"].repeats) == [0, 1] * 3
    assert list(answers.scores["exact"].values) == [1.0] * 6


def test_writing_a_unit_twice_changes_nothing(store):
    experiment, arm = enter_experiment(store)
    write(store, arm, answer(0))
    other = (
        Outcome(Unit(0, 0, 0, 0), reply=Reply(text="changed")),
        [Observation(Unit(0, 0, 0, 0), "exact", False)],
        [],
    )
    write(store, arm, other, other)

    assert (rows(store, schema.replies, arm), rows(store, schema.observations, arm)) == (1, 1)
    assert list(load_outcomes(store, experiment, 0).scores["exact"].values) == [1.0]
    assert reply_texts(store, experiment, 0, [0]) == {0: "4"}


def test_a_reply_with_characters_that_databases_refuse_is_stored(store):
    """A JSON answer may contain half a surrogate pair and NUL."""
    experiment, arm = enter_experiment(store)
    write(store, arm, answer(0, text="half \ud83d, whole \ud83d\ude00, nul \0."))

    assert reply_texts(store, experiment, 0, [0]) == {0: "half \ufffd, whole \U0001f600, nul \ufffd."}


def test_a_reply_of_a_megabyte_is_stored_whole(store):
    experiment, arm = enter_experiment(store)
    write(store, arm, answer(0, text="\x1b[31m" + "x" * 1_000_000))

    assert reply_texts(store, experiment, 0, [0])[0] == "\x1b[31m" + "x" * 1_000_000


def test_a_failure_without_a_reply_shows_its_detail(store):
    experiment, arm = enter_experiment(store)
    write(store, arm, (Outcome(Unit(1, 0, 0, 0), failure="assertion", detail="assert 3 == 4"), [], []))

    assert reply_texts(store, experiment, 0, [0, 1]) == {1: "assert 3 == 4"}


def test_flushed_rows_are_in_the_database(store):
    experiment, arm = enter_experiment(store)
    writer = store.writer()
    writer.add(*with_arm(answer(0), arm))
    writer.flush()
    there = len(load_outcomes(store, experiment, 0).positions)
    writer.close()
    writer.close()

    assert there == 1


def with_arm(unit: tuple[Outcome, list[Observation], list[Lost]], arm: int) -> tuple[Any, ...]:
    return unit[0], arm, unit[1], unit[2]


def test_a_row_that_cannot_be_stored_raises_at_the_next_add(store):
    """And not swallowed by the thread that writes."""
    _, arm = enter_experiment(store)
    writer = store.writer()
    writer.add(Outcome(Unit(0, 0, 0, 0), reply=Reply(text="", input_tokens=2**70)), arm, [], [])

    with pytest.raises(StoreError, match=r"run store .* \(1 row of this run not saved\)"):
        writer.flush()
    with pytest.raises(StoreError, match="not saved"):
        writer.add(*with_arm(answer(1), arm))
    with pytest.raises(StoreError, match="not saved"):
        writer.close()


def test_four_threads_of_two_stores_lose_nothing_and_double_nothing(store, location):
    experiment, arm = enter_experiment(store)
    other = RunStore(location)
    writers = [store.writer(), other.writer()]

    def add(writer: Any, first: int) -> None:
        for position in range(first, first + 500):
            writer.add(*with_arm(answer(position), arm))

    threads = [threading.Thread(target=add, args=(writers[k % 2], 250 * k)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.close()
    other.close()

    assert sorted(load_outcomes(store, experiment, 0).positions) == list(range(1250))


# -- events -------------------------------------------------------------------------------------------------------


def test_events_come_back_counted_and_in_order(store):
    writer, events = store.writer(), {"input_tokens": 7, "output_tokens": 3, "cost_usd": 0.25, "first_token_s": 0.125}
    for k in range(3):
        facts = (
            {**events, "finish": "stop"} if k else {"error": "429", "said": "half \ud83d, nul \0", "inf": float("inf")}
        )
        event = Event(
            name="request.stop", at=10.0 + k, seconds=2.0, experiment="t", arm="v2", sample=str(k), facts=facts
        )
        writer.tell("run1", event)
    writer.tell("run1", Event(name="limiter.wait", at=9.0, seconds=0.5, experiment="t", arm="v2"))
    writer.tell("run2", Event(name="request.stop", at=9.0, seconds=0.5, experiment="t", arm="v2"))
    writer.close()

    result = load_events(store, "run1")
    assert set(result) == {("t", "v2")}
    counts = {(count.name, count.error): count for count in result["t", "v2"].counts}
    answered = counts["request.stop", None]
    assert (answered.n, answered.counted, answered.input_tokens, answered.output_tokens) == (2, 2, 14, 6)
    assert (answered.priced, answered.cost_usd, answered.first, answered.last) == (2, 0.5, 9.0, 12.0)
    assert counts["request.stop", "429"].n == 1
    assert (list(result["t", "v2"].latencies), list(result["t", "v2"].waits)) == ([2.0, 2.0], [0.5])
    table = tables.events(store, "run1")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["sample"] for row in rows] == ["0", "1", "2", ""]
    assert [row["facts"] for row in rows[1:]] == [{"finish": "stop"}, {"finish": "stop"}, None]
    assert rows[0]["facts"]["inf"] == "inf"


def test_exported_rows_equal_the_stored_ones(store):
    _, arm = enter_experiment(store)
    lost = (Outcome(Unit(1, 0, 0, 0), lost="error"), [], [Lost(Unit(1, 0, 0, 0), None, "error", "503")])
    write(store, arm, answer(0), answer(0, 1, text="5"), lost)

    observations, replies = tables.observations(store, "run1"), tables.replies(store, "run1")
    place = ("run1", PLAN.nodeid, "v2")
    assert list(observations.rows) == [
        (*place, "q0", "a", 0, None, "exact", 1.0, None, None, None),
        (*place, "q0", "a", 1, None, "exact", 1.0, None, None, None),
        (*place, "q1", "b", 0, None, None, None, None, "503", "error"),
    ]
    assert list(replies.rows) == [
        (*place, "q0", "a", repeat, None, {"question": 0}, 0, text, 3, None, 0.25, "stop", None, False, None, 1.5)
        for repeat, text in ((0, "4"), (1, "5"))
    ]


def test_a_store_of_an_earlier_format_is_upgraded_where_it_is(store, location):
    enter_experiment(store)
    store.execute("DROP TABLE events")
    store.execute("UPDATE store_format SET version = 1")
    again = RunStore(location)
    writer = again.writer()
    writer.tell("run1", Event(name="vote", at=1.0))
    writer.close()
    result, status = list(tables.events(again, "run1").rows), again.run("run1")["status"]
    again.close()

    assert (len(result), status) == (1, "running")


# -- stored replies that stand in ---------------------------------------------------------------------------------


def test_the_latest_arm_with_the_fingerprint_is_found(store):
    keys = [enter_experiment(store, f"run{k}")[1] for k in range(3)]
    enter_experiment(store, "other", fingerprint="different")

    assert find_arm(store, "same", run="now") == (keys[2], "run2")
    assert find_arm(store, "same", run="run2") == (keys[1], "run1")
    assert find_arm(store, "unheard of", run="now") is None


def test_a_complete_arm_is_preferred_to_a_later_one(store):
    complete, arm = enter_experiment(store, "run0")
    enter_experiment(store, "run1")
    store.finish_experiment(complete)

    assert find_arm(store, "same", run="now") == (arm, "run0")


def test_the_latest_arm_is_resumed_whether_it_is_complete_or_not(store):
    complete, _ = enter_experiment(store, "run0")
    store.finish_experiment(complete)
    _, arm = enter_experiment(store, "run1")

    assert find_arm(store, "same", run="now", latest=True) == (arm, "run1")


def test_copying_takes_answers_and_leaves_what_was_lost(store):
    _, source = enter_experiment(store, "run0")
    write(
        store, source,
        answer(0), answer(0, 1), answer(1),
        (Outcome(Unit(2, 0, 0, 0), lost="error"), [], [Lost(Unit(2, 0, 0, 0), None, "error")]),
        (Outcome(Unit(3, 0, 0, 0), reply=Reply(text="")), [], [Lost(Unit(3, 0, 0, 0), "exact", "scorer")]),
    )  # fmt: skip
    experiment, target = enter_experiment(store, "run1")

    done = copy_outcomes(store, source, target, source_run="run0", draws=Draws(repeats=2))

    assert done == {(0, 0), (0, 1), (1, 0), (3, 0)}
    answers = load_outcomes(store, experiment, 0)
    assert len(answers.positions) == 4
    assert sorted(answers.scores["exact"].positions) == [0, 0, 1]
    assert [(entry.unit.position, entry.metric) for entry in answers.lost] == [(3, "exact")]
    assert reply_texts(store, experiment, 0, [0]) == {0: "4"}
    assert reused_replies(store, experiment) == {"v2": ReusedReplies(run="run0", replies=4)}
    assert rows(store, schema.replies, source) == 4


def test_copying_takes_only_the_planned_repeats(store):
    _, source = enter_experiment(store, "run0")
    write(store, source, answer(0), answer(0, 1), answer(0, 2))
    experiment, target = enter_experiment(store, "run1")

    assert copy_outcomes(store, source, target, source_run="run0", draws=Draws(repeats=2)) == {(0, 0), (0, 1)}
    assert sorted(load_outcomes(store, experiment, 0).scores["exact"].repeats) == [0, 1]


def test_an_arm_with_replies_of_its_own_reuses_none(store):
    experiment, arm = enter_experiment(store)
    write(store, arm, answer(0))

    assert reused_replies(store, experiment) == {}


def test_copying_twice_changes_nothing(store):
    _, source = enter_experiment(store, "run0")
    write(store, source, answer(0))
    experiment, target = enter_experiment(store, "run1")
    first = copy_outcomes(store, source, target, source_run="run0", draws=Draws(repeats=2))
    write(store, source, answer(1))

    assert copy_outcomes(store, source, target, source_run="run0", draws=Draws(repeats=2)) == first == {(0, 0)}
    assert reused_replies(store, experiment) == {"v2": ReusedReplies(run="run0", replies=1)}


def test_new_scores_take_the_place_of_stored_ones_in_the_planned_repeats_and_once(store):
    _, source = enter_experiment(store, "run0")
    experiment, target = enter_experiment(store, "run1")

    for places in ([(0, 0), (0, 1)], [(0, 0), (0, 1), (1, 0)]):
        new = [Observation(Unit(position, 0, 0, repeat), "exact", 0.25) for position, repeat in places]
        write(store, source, *(answer(*place) for place in places))
        scores = NewScores(frozenset({"exact"}), new)
        copy_outcomes(store, source, target, source_run="run0", draws=Draws(repeats=1), scores=scores)

    stored = load_outcomes(store, experiment, 0).scores["exact"]
    assert (list(stored.positions), list(stored.repeats), list(stored.values)) == ([0], [0], [0.25])


def test_the_candidate_of_a_stored_run_is_found_by_the_beginning_of_its_id(store):
    _, arm = enter_experiment(store, "abc123")
    enter_experiment(store, "abd456")

    key, run, plan = store.stored_candidate("abc", PLAN.nodeid)
    assert (key, run, plan) == (arm, "abc123", PLAN)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("ab", "'ab' matches 2 runs in {}: give more characters of the id"),
        ("x", "run store {} has no run that begins with 'x': the latest is 'abd456'"),
        ("abd45x", "run store {} has no run that begins with 'abd45x': did you mean 'abd456'?"),
        ("%", "run store {} has no run that begins with '%': the latest is 'abd456'"),
        ("tag:mian", "run store {} has no tag 'mian': did you mean 'main'?"),
        ("tag:x", "run store {} has no tag 'x': it has main; `crucible runs tag RUN x` makes a run the baseline *"),
    ],
)
def test_an_unknown_or_ambiguous_run_is_an_error(store, options, problem):
    enter_experiment(store, "abc123")
    enter_experiment(store, "abd456")
    add_tag(store, "abc123", "main", at="2026-01-01")

    with pytest.raises(SpecError) as raised:
        store.stored_candidate(options, PLAN.nodeid)
    assert fnmatch.fnmatchcase(str(raised.value), problem.replace("[", "[[]").format(repr(store.location)))


def test_a_run_without_replies_to_an_experiment_is_an_error(store):
    begin(store, "abc123")

    with pytest.raises(
        SpecError, match=r"run abc123 has no replies of test_math.py::test_sums in .*: compare with a run"
    ):
        store.stored_candidate("abc", PLAN.nodeid)


def test_the_latest_run_is_the_one_that_was_entered_last_whatever_the_clock_says(store):
    for run, started in (("first", "2026-05-01"), ("second", "2026-04-01")):  # set back between them
        store.begin_run(run, started=started, seed=1, alpha=0.05, correction="holm", git=None, environment={})
        store.add_experiment(run, PLAN, SAMPLES)

    assert store.find_run() == store.find_run("latest") == "second"
    assert [run.id for run in list_runs(store)] == ["second", "first"]


def test_a_tag_means_the_run_that_was_promoted_last_or_else_tagged_last(store):
    for run in ("one", "two", "three"):
        enter_experiment(store, run)
    for run in ("one", "two"):
        add_tag(store, run, "main", at="2026-01-01")
    assert store.find_run("tag:main") == "two"

    add_tag(store, "two", "main", at="2026-01-01", promoted=True)
    add_tag(store, "one", "main", at="2026-01-02", promoted=True, forced=True)
    add_tag(store, "three", "main", at="2026-01-03")
    assert store.find_run("tag:main") == "one"

    add_tag(store, "two", "main", at="2026-01-04", promoted=True)
    assert store.find_run("tag:main") == "two"


def clear_store(store: RunStore, **what: Any) -> tuple[str, ...]:
    options = {"keep_runs": 0, "keep_days": 1.0, "cache_days": None, **what}
    prunable = find_prunable(store, at=datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC), **options)
    clear(store, prunable)
    return prunable.runs


def store_old_run(store: RunStore, run: str, started: str, status: str = "finished") -> int:
    store.begin_run(run, started=started, seed=1, alpha=0.05, correction="holm", git=None, environment={})
    experiment = store.add_experiment(run, PLAN, SAMPLES)
    arm = store.add_arm(experiment, 0, "v2", run)
    write(store, arm, answer(1))
    store.end_run(run, finished=started, status=status)
    return experiment


def test_pruning_deletes_old_runs_with_all_their_rows_and_no_others(store):
    old, young = (
        store_old_run(store, "old", "2026-01-01T00:00:00+00:00"),
        store_old_run(store, "young", "2026-02-28T20:00:00+00:00"),
    )
    outcomes = load_outcomes(store, young, 0)

    assert clear_store(store) == ("old",)

    assert [run.id for run in list_runs(store)] == ["young"]
    assert load_outcomes(store, young, 0) == outcomes
    assert not store.has_arms(old)
    assert list(tables.observations(store, "old").rows) == []
    assert group_names(store, PLAN.dataset_sha256)  # the young one asks it too
    assert clear_store(store, keep_days=0.0) == ("young",)
    assert group_names(store, PLAN.dataset_sha256) == []


def store_large_run(store: RunStore, run: str, samples: int) -> None:
    """A run that is pruned in several parts."""
    arm = store.scalar(
        "SELECT id FROM arms WHERE experiment = :key", key=store_old_run(store, run, "2026-01-01T00:00:00Z")
    )
    rows = [
        {"arm": arm, "position": k, "epoch": epoch, "metric": metric, "value": 0.5, "is_bool": False}
        for k in range(10, samples)
        for epoch in (0, 1)
        for metric in ("a", "b")
    ]
    store.insert(schema.observations, rows)


def test_a_run_that_is_pruned_in_parts_is_gone(store, monkeypatch):
    monkeypatch.setattr(prune, "PART_ROWS", 20)
    monkeypatch.setattr(prune, "FIRST_STEP", 4)
    store_large_run(store, "large", 200)
    young = store_old_run(store, "young", "2026-02-28T20:00:00+00:00")
    stored = load_outcomes(store, young, 0)

    assert clear_store(store) == ("large",)

    assert set(store.scalars("SELECT arm FROM observations")) == set(store.scalars("SELECT id FROM arms"))
    assert load_outcomes(store, young, 0) == stored


def test_pruning_that_is_interrupted_hides_the_run_and_continues(store, monkeypatch):
    monkeypatch.setattr(prune, "PART_ROWS", 20)
    monkeypatch.setattr(prune, "FIRST_STEP", 4)
    store_large_run(store, "large", 200)
    store_old_run(store, "young", "2026-02-28T20:00:00+00:00")

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(prune.time, "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            clear_store(store)

    # A part of its rows is gone: it must not be shown, compared with or copied from.
    assert [run.id for run in list_runs(store)] == ["young"]
    with pytest.raises(UnknownRunError, match="no run that begins with 'large'"):
        store.find_run("large")
    assert set(store.scalars("SELECT fingerprint FROM arms")) == {"", "young"}
    assert clear_store(store, keep_runs=10) == ("large",)
    assert store.scalar("SELECT COUNT(*) FROM runs") == 1
    assert set(store.scalars("SELECT arm FROM observations")) == set(store.scalars("SELECT id FROM arms"))


def test_tagged_running_and_newest_runs_are_not_pruned(store):
    for number, (run, status) in enumerate(
        [("tagged", "finished"), ("killed", "running"), ("a", "finished"), ("b", "finished")]
    ):
        store_old_run(store, run, f"2026-01-0{number + 1}T00:00:00+00:00", status)
    store_old_run(store, "alive", "2026-02-27T00:00:00+00:00", "running")
    add_tag(store, "tagged", "main", at="")

    assert clear_store(store, keep_runs=2) == ("a", "killed")
    assert {run.id for run in list_runs(store)} == {"tagged", "b", "alive"}


def test_old_cached_replies_are_pruned(store):
    for key, created in (("old", 0.0), ("young", datetime.datetime(2026, 2, 28, tzinfo=datetime.UTC).timestamp())):
        row = {"key": key, "identity": "i", "created": created, "reply": "{}"}
        store.insert(schema.reply_cache, [row])

    clear_store(store, cache_days=10.0)

    assert list(store.scalars("SELECT key FROM reply_cache")) == ["young"]


def test_a_run_is_redacted_again_and_other_runs_keep_their_texts(store):
    samples = [Sample(id="q", input={"of": "Ann"}, expected=5, metadata={"by": ["Ann", 1.5]})]
    long = "Ann said so. " * 20
    for run in ("run0", "run1"):
        begin(store, run)
        experiment = store.add_experiment(run, PLAN, samples)
        arm = store.add_arm(experiment, 0, "v2", run)
        outcome, _, _ = call_with(0, "Who? Ann?", reply=long, reasoning=long)
        unit = outcome.unit
        writer = store.writer()
        writer.add(outcome, arm, [Observation(unit, "exact", True), Observation(unit, "who", "Ann")], [])
        writer.tell(run, Event(name="vote", at=1.0, facts={"by": "Ann"}))
        writer.close()
    for key, reply in (("hers", "Ann"), ("others", "Bob")):
        row = {"key": key, "identity": "i", "created": 0.0, "reply": "{}", "text": reply, "run": "run1"}
        store.insert(schema.reply_cache, [row])

    redact_again(store, "run1", lambda text: text.replace("Ann", "(name)"))

    [reply] = tables.replies(store, "run1").rows
    assert reply[7:10] == ({"of": "(name)"}, 5, f"{long}0".replace("Ann", "(name)"))
    assert [row[7:11] for row in tables.observations(store, "run1").rows] == [
        ("exact", 1.0, None, None),
        ("who", None, "(name)", None),
    ]
    assert [row[-1] for row in tables.events(store, "run1").rows] == [{"by": "(name)"}]
    [talk] = load_conversations(store, experiment, replace(PLAN, arms=PLAN.arms[:1]), 0)
    assert [(call.messages, call.reasoning) for call in talk.calls] == [("Who? (name)?", long.replace("Ann", "(name)"))]
    assert list(store.scalars("SELECT key FROM reply_cache")) == ["others"]
    [row] = tables.replies(store, "run0").rows
    assert row[9] == f"{long}0"


# -- rows of features about units -----------------------------------------------------------------------------------


def trace_row(number: int, decision: str, **others: Any) -> dict[str, Any]:
    row = dict.fromkeys(trace_events.names[3:])
    return {
        **row,
        "number": number,
        "kind": "decision",
        "decision": decision,
        "is_claim": False,
        "calls": 0,
        "at": 1.0,
        **others,
    }


def write_decisions(store: RunStore, arm: int, position: int, *decisions: dict[str, Any], **options: Any) -> None:
    outcome, *scores = answer(position)
    outcome.feature_rows[trace_events.name] = [*decisions]
    with contextlib.closing(store.writer(**options)) as writer:
        writer.add(outcome, arm, *scores)
        # It is of the reply no more: a task that goes on has added it.
        outcome.feature_rows[trace_events.name].append(trace_row(99, "late"))


def decisions_of(store: RunStore, run: str = "run1") -> list[tuple[str, list[str]]]:
    chains = load_decisions_of_run(store, run)
    return [(chain.sample, [event.decision for event in chain.decisions]) for chain in chains]


def test_rows_of_a_feature_are_stored_with_their_unit(store):
    _, arm = enter_experiment(store)
    odd = trace_row(
        2, "nul \0 and half \ud83d", rejected=["b\0", "c"], because="x" * 10_000, confidence=0.5, parent=1,
        revises=1, stage="a/b", is_claim=True, calls=3, at=2.5,
    )  # fmt: skip
    write_decisions(store, arm, 1, trace_row(1, "a"), odd)
    write_decisions(store, arm, 0, trace_row(1, "first"))

    first, second = load_decisions_of_run(store, "run1")

    assert (first.sample, second.sample, second.arm, second.repeat) == ("q0", "q1", "v2", 0)
    assert second.decisions[1] == Decision(
        number=2, kind="decision", decision="nul \ufffd and half \ufffd", over=("b\ufffd", "c"), because="x" * 10_000,
        confidence=0.5, parent=1, revises=1, stage="a/b", is_claim=True, calls=3, at=2.5,
    )  # fmt: skip
    assert load_decisions_of_run(store, "run1", sample="q1") == [second]
    assert load_decisions_of_run(store, "run1", arm="v1") == []


def test_without_texts_no_rows_of_features_are_stored(store):
    _, arm = enter_experiment(store)
    write_decisions(store, arm, 1, trace_row(1, "a"), stores_texts=False)

    assert rows(store, schema.replies, arm) == 1
    assert decisions_of(store) == []


def test_rows_of_features_are_copied_with_the_reply_and_deleted_with_the_copy(store):
    _, source = enter_experiment(store)
    write_decisions(store, source, 0, trace_row(1, "a"), trace_row(2, "b"))
    write_decisions(store, source, 1, trace_row(1, "c"))
    lost = Outcome(Unit(2, 0, 0, 0), lost="error", feature_rows={trace_events.name: [trace_row(1, "lost")]})
    write(store, source, (lost, [], [Lost(lost.unit, None, "error")]))
    _, target = enter_experiment(store, "run2")

    copy_outcomes(store, source, target, source_run="run1", draws=PLAN.draws(0))
    copy_outcomes(store, source, target, source_run="run1", draws=PLAN.draws(0))

    assert decisions_of(store) == [("q0", ["a", "b"]), ("q1", ["c"]), ("q2", ["lost"])]
    assert decisions_of(store, "run2") == [("q0", ["a", "b"]), ("q1", ["c"])]
    with contextlib.closing(store.writer()) as writer:
        writer.remove_copied(target, 0, 0)
    write_decisions(store, target, 0, trace_row(1, "again"))
    assert decisions_of(store, "run2") == [("q0", ["again"]), ("q1", ["c"])]


def test_copies_without_texts_have_no_rows_of_features(store):
    _, source = enter_experiment(store)
    write_decisions(store, source, 0, trace_row(1, "a"))
    _, target = enter_experiment(store, "run2")

    copy_outcomes(store, source, target, source_run="run1", draws=PLAN.draws(0), with_texts=False)

    assert decisions_of(store, "run2") == []


def test_rows_of_features_are_redacted_when_written_and_again(location):
    hide = {"key": "(key hidden)"}
    with contextlib.closing(RunStore(location, hide=lambda text: text.replace("sk-1", hide["key"]))) as store:
        _, arm = enter_experiment(store)
        row = trace_row(1, "sk-1", rejected=["Ann", "sk-1"], because="of Ann", kind="sk-1", stage="sk-1")
        write_decisions(store, arm, 0, row)
        redact_again(store, "run1", lambda text: text.replace("Ann", "(name)"))

        (event,) = load_decisions_of_run(store, "run1")[0].decisions

    assert (event.decision, event.over, event.because) == (hide["key"], ("(name)", hide["key"]), "of (name)")
    assert (event.kind, event.stage) == (hide["key"], hide["key"])


def test_pruning_deletes_rows_of_features(store):
    experiment = store_old_run(store, "old", "2026-01-01T00:00:00+00:00")
    write_decisions(
        store,
        store.scalar("SELECT id FROM arms WHERE experiment = :experiment", experiment=experiment),
        0,
        trace_row(1, "a"),
    )

    clear_store(store)

    assert store.scalar("SELECT COUNT(*) FROM trace_events") == 0


# -- the reply cache ----------------------------------------------------------------------------------------------


def test_cached_replies_of_an_arm_are_summed_over_workers(store):
    experiment, _ = enter_experiment(store)
    other, _ = enter_experiment(store, "run2")
    for requests, hits, since in ((5, 2, 1e9 + 60), (3, 3, 1e9), (4, 1, 1e9 + 30), (2, 0, None)):
        store.add_requests("run1", PLAN.nodeid, "v2", requests=requests, hits=hits, since=since)

    assert cached_replies(store, experiment) == {
        "v2": CachedReplies(replies=6, requests=14, since="2001-09-09T01:46:40+00:00")
    }
    assert cached_replies(store, other) == {}


def test_an_arm_without_cached_replies_has_no_cache_counts(store):
    experiment, _ = enter_experiment(store)
    store.add_requests("run1", PLAN.nodeid, "v2", requests=5, hits=0, since=None)

    assert cached_replies(store, experiment) == {}


# -- opening ------------------------------------------------------------------------------------------------------


def test_a_store_of_a_newer_version_is_left_alone(store, location):
    store.execute("UPDATE store_format SET version = :version", version=schema.FORMAT + 1)

    with pytest.raises(StoreError) as raised:
        RunStore(location)
    assert str(raised.value) == (
        f"run store {location!r} has format {schema.FORMAT + 1}, this version writes format {schema.FORMAT}: "
        "upgrade pytest-crucible, or name another store with --crucible-store"
    )


def test_a_store_of_an_earlier_version_gets_the_missing_tables_and_columns(store, location):
    experiment, _ = enter_experiment(store)
    for addition in (addition for additions in reversed(schema.ADDED) for addition in additions):
        if isinstance(addition, Table):
            store.execute(f"DROP TABLE {addition.name}")
        else:
            table, column = addition
            store.execute(f"ALTER TABLE {table.name} DROP COLUMN {column}")
    store.execute("UPDATE store_format SET version = 1")

    again = RunStore(location)
    again.add_requests("run1", PLAN.nodeid, "v2", requests=5, hits=4, since=1e9)
    replies = cached_replies(again, experiment)
    formats = list(again.scalars("SELECT version FROM store_format"))
    again.close()
    assert (formats, replies["v2"].replies) == ([schema.FORMAT], 4)


def test_a_half_created_store_is_completed(store, location):
    store.execute("DROP TABLE observations")
    store.execute("DELETE FROM store_format")

    again = RunStore(location)
    experiment, arm = enter_experiment(again)
    write(again, arm, answer(0))
    positions = load_outcomes(again, experiment, 0).positions
    again.close()

    assert list(positions) == [0]


# -- calls --------------------------------------------------------------------------------------------------------


def call_with(
    position: int, *prompts: str, reply: str = "4", reasoning: str = ""
) -> tuple[Outcome, list[Observation], list[Lost]]:
    """A unit that sent some prompts, and returned the last reply."""
    replies = [Reply(text=f"{reply}{k}", reasoning=reasoning) for k in range(len(prompts))]
    calls = [ModelCall(prompt, False, 1, None, "", reply) for prompt, reply in zip(prompts, replies, strict=True)]
    outcome = Outcome(Unit(position, 0, 0, 0), reply=replies[-1], calls=calls, sample=SAMPLES[position])
    return outcome, [], []


def test_loaded_calls_equal_those_sent(store):
    experiment, arm = enter_experiment(store)
    write(store, arm, call_with(1, "How many is 1?", "You said 40. Sure?", reasoning="let me see"))

    [talk] = load_conversations(store, experiment, replace(PLAN, arms=PLAN.arms[:1]), 1)
    assert [(call.call, call.messages, call.text, call.reasoning) for call in talk.calls] == [
        (1, "How many is 1?", "40", "let me see"),
        (2, "You said 40. Sure?", "41", "let me see"),
    ]


def test_copied_calls_keep_the_run_that_sent_them(store):
    plan = replace(PLAN, arms=PLAN.arms[:1])
    arms = []
    for number in range(3):
        experiment, arm = enter_experiment(store, f"run{number}")
        arms.append(arm)
        if number:
            copy_outcomes(store, arms[number - 1], arm, source_run="run0", draws=Draws(repeats=2))
        write(store, arm, call_with(number, f"prompt {number}"))

    paid = [load_conversations(store, experiment, plan, position)[0].calls[0].paid_by for position in range(3)]
    assert paid == ["run0", "run1", None]


def test_the_calls_of_a_lost_unit_are_not_copied(store):
    _, source = enter_experiment(store, "run0")
    outcome, _, _ = call_with(0, "prompt")
    lost = (Outcome(outcome.unit, lost="error", calls=outcome.calls, sample=outcome.sample), [], [])
    write(store, source, lost, call_with(1, "prompt"))
    _, target = enter_experiment(store, "run1")
    copy_outcomes(store, source, target, source_run="run0", draws=Draws(repeats=2))

    assert (rows(store, schema.calls, source), rows(store, schema.calls, target)) == (2, 1)


def test_a_message_is_deleted_with_the_last_call_that_refers_to_it(store):
    facts = {"started": "2026-01-01T00:00:00+00:00", "seed": 1, "alpha": 0.05, "correction": "holm", "environment": {}}
    for run in ("run0", "run1"):
        store.begin_run(run, **facts)
    _, old = enter_experiment(store, "run0")
    write(store, old, call_with(0, "in both runs"), call_with(1, "in one run"))
    store.end_run("run0", finished="2026-01-01", status="finished")
    _, new = enter_experiment(store, "run1")
    write(store, new, call_with(0, "in both runs"))
    at = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    clear(store, find_prunable(store, at=at, keep_runs=1, keep_days=1, cache_days=None))

    assert list(store.scalars("SELECT body FROM messages")) == [b'"in both runs"']


def test_a_decision_is_made_once(store):
    assert add_decision(store, "run1", "sweep", 0, {"live": [0, 1]}) == {"live": [0, 1]}
    # Another worker decides the same look later.
    assert add_decision(store, "run1", "sweep", 0, {"live": [2]}) == {"live": [0, 1]}
    add_decision(store, "run1", "sweep", 1, {"live": [1]})
    set_decision(store, "run1", "sweep", 1, {"live": []})

    assert load_decisions(store, "run1", "sweep") == {0: {"live": [0, 1]}, 1: {"live": []}}
    assert load_decisions(store, "other", "sweep") == {}
