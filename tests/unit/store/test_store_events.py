"""Events on their way into the run store, and out of it again."""

from __future__ import annotations

import itertools
import json
import math
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records import Event
from pytest_crucible.records.errors import StoreError
from pytest_crucible.records.redaction import HIDDEN, hider
from pytest_crucible.store import schema
from pytest_crucible.store.event_course import event_course
from pytest_crucible.store.events import count_events, load_events
from pytest_crucible.store.rows import AMOUNTS, event_rows
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.tables import events
from pytest_crucible.store.texts import sanitize_text
from pytest_crucible.store.writer import Recorder

T, U = "test_sums.py::test_sums", "test_sums.py::test_others"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> Iterator[RunStore]:
    opened = RunStore(str(path))
    yield opened
    opened.close()


def event(name: str = "request.stop", *, at: float = 1.0, arm: str = "v2", experiment: str = T, **fields) -> Event:
    facts = {key: fields.pop(key) for key in list(fields) if key not in ("seconds", "sample", "repeat")}
    return Event(name=name, at=at, arm=arm, experiment=experiment, facts=facts, **fields)


def record(store: RunStore, *events: Event, run: str = "run1") -> None:
    recorder, writer = Recorder(run), store.writer()
    recorder.open(writer)
    for item in events:
        recorder(item)
    writer.close()


def rows(store: RunStore, run: str = "run1") -> list[dict[str, object]]:
    table = events(store, run)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


# -- rows ---------------------------------------------------------------------------------------------------------

FACTS = st.dictionaries(
    st.sampled_from([*AMOUNTS, "error", "finish", "counts"]) | st.text(max_size=5),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.builds(object)
    | st.just({1: {2}}),
    max_size=6,
)


@given(FACTS)
def test_each_fact_is_in_a_column_or_in_the_json(facts):
    """Return an event's facts: each is in a column of its own or in the JSON, and none in both."""
    [row] = event_rows([("run1", Event(name="n", at=0.0, facts=facts))], str, str)
    output = row["facts"] or {}
    json.dumps(output, allow_nan=False)

    for name, value in facts.items():
        if name == "error":
            assert row["error"] == (None if value is None else sanitize_text(str(value)))
        elif name in AMOUNTS:
            is_amount = type(value) in (int, float) and math.isfinite(value)
            assert row[name] == (value if is_amount else None)
            assert (name in output) == (value is not None and not is_amount)
        else:
            assert name in output


@given(st.lists(FACTS, max_size=8))
def test_an_event_is_stored_as_if_it_were_the_only_one_of_its_batch(several):
    """Though facts that are alike are looked at once: 1, 1.0 and true are not alike."""
    events = [("run1", Event(name="n", at=0.0, facts=facts)) for facts in several]
    hide = hider(["a-key-of-ours"])

    assert repr(event_rows(events, hide, hide)) == repr(
        [row for event in events for row in event_rows([event], hide, hide)]
    )


def test_equal_facts_are_hidden_in_every_event():
    events = [("run1", Event(name="n", at=0.0, facts={"finish": "a-key-of-ours"}))] * 3

    assert [row["facts"] for row in event_rows(events, hider(["a-key-of-ours"]), str)] == [{"finish": HIDDEN}] * 3


def test_plain_facts_are_read_as_they_were(store):
    table = {"counts": {"4": 2, "5": 1}, "consensus": 0.5, "tie": False, "queried": ["v1", "v2"], "winner": "ä \n 4"}
    record(store, event("vote", seconds=None, sample="a", repeat=1, **table))

    [row] = rows(store)
    assert row["facts"] == table
    assert (row["experiment"], row["arm"], row["sample"], row["repeat"], row["name"]) == (T, "v2", "a", 1, "vote")


def test_starts_and_facts_of_other_tables_are_not_stored(store):
    names = ("request.start", "sample.start", "sample.stop", "experiment.start", "experiment.stop", "request.stop")
    record(store, *(event(name) for name in names))

    assert [row["name"] for row in rows(store)] == ["request.stop"]


# -- recorder -----------------------------------------------------------------------------------------------------


def test_events_before_the_run_is_entered_wait_for_it(store):
    recorder, writer = Recorder("run1"), store.writer()
    recorder(event("train.step", experiment="", step=1))
    recorder(event("train.step", experiment="", step=2))
    recorder.open(writer)
    recorder(event("request.stop"))
    writer.close()

    assert [(row["name"], row["facts"]) for row in rows(store)] == [
        ("train.step", {"step": 1}),
        ("train.step", {"step": 2}),
        ("request.stop", None),
    ]


def test_events_after_the_end_are_discarded(store):
    recorder, writer = Recorder("run1"), store.writer()
    recorder.open(writer)
    recorder(event())
    recorder.close()
    recorder(event())
    writer.close()

    assert len(rows(store)) == 1


def test_events_of_a_run_that_never_began_are_not_stored(store):
    recorder = Recorder("run1")
    recorder(event("train.step"))
    recorder.close()

    assert rows(store) == []


def test_telling_never_raises_where_storing_has_failed(store):
    writer = store.writer()
    store.execute("DROP TABLE events")
    writer.tell("run1", event())
    with pytest.raises(StoreError, match="1 row of this run kept in"):
        writer.flush()

    writer.tell("run1", event())

    # A row told after the failure is kept beside the store too.
    with pytest.raises(StoreError, match="1 row of this run kept in"):
        writer.close()


# -- reading ------------------------------------------------------------------------------------------------------


def test_events_are_counted_by_arm_name_and_class_of_error(store):
    record(
        store,
        event(at=10.0, seconds=2.0, input_tokens=5, output_tokens=1, cost_usd=0.5, first_token_s=0.25),
        event(at=12.0, seconds=1.0, input_tokens=7, output_tokens=2),
        event(at=13.0, seconds=9.0, error="429"),
        event(at=13.0, seconds=0.5, arm="v1"),
        event("limiter.wait", seconds=0.25),
        event("request.retry", kind="429"),
        event("train.step", experiment="", arm="v2", seconds=1.0),
    )
    events = load_events(store, "run1")

    assert set(events) == {(T, "v2"), (T, "v1")}
    of_arm = events[T, "v2"]
    counts = {(count.name, count.error): count for count in of_arm.counts}
    answered = counts["request.stop", None]
    assert (answered.n, answered.counted, answered.input_tokens, answered.output_tokens) == (2, 2, 12, 3)
    assert (answered.priced, answered.cost_usd, answered.first, answered.last) == (1, 0.5, 8.0, 12.0)
    failed = counts["request.stop", "429"]
    assert (failed.n, failed.counted, failed.input_tokens, failed.cost_usd) == (1, 0, None, None)
    assert counts["request.retry", None].n == 1
    assert (list(of_arm.latencies), list(of_arm.first_tokens), list(of_arm.waits)) == ([2.0, 1.0], [0.25], [0.25])


def test_two_sessions_that_write_into_one_store_do_not_mix(store, path):
    other = RunStore(str(path))
    sessions = [(entry, entry.writer(), Recorder(run)) for entry, run in ((store, "run1"), (other, "run2"))]
    for _, writer, recorder in sessions:
        recorder.open(writer)
    for k in range(600):
        for number, (_, _, recorder) in enumerate(sessions, start=1):
            recorder(event(seconds=float(number), experiment=(T, U)[k % 2], sample=f"{number}-{k}"))
    for _, writer, _ in sessions:
        writer.close()
    other.close()

    for number in (1, 2):
        events = load_events(store, f"run{number}")
        assert {place: set(event.latencies) for place, event in events.items()} == {
            (T, "v2"): {float(number)},
            (U, "v2"): {float(number)},
        }
        assert [row["sample"] for row in rows(store, f"run{number}")] == [f"{number}-{k}" for k in range(600)]


# -- durability ---------------------------------------------------------------------------------------------------

PROGRAM = """
import sys, time
from pytest_crucible.records import Event
from pytest_crucible.store.writer import Recorder
from pytest_crucible.store.runs import RunStore

recorder = Recorder("run1")
recorder.open(RunStore(sys.argv[1]).writer())
for k in range(100_000):
    recorder(Event(name="request.stop", at=time.time(), experiment="t", arm="v2", sample=str(k)))
    print(k, flush=True)
    time.sleep(0.002)
"""


@pytest.mark.slow
def test_a_killed_process_loses_a_second_of_events_at_most(path):
    events = []
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            events.append(time.monotonic())
            if int(line) == 700:
                process.send_signal(signal.SIGKILL)
    with closing(sqlite3.connect(path)) as connection:
        samples = [int(row[0]) for row in connection.execute("SELECT sample FROM events ORDER BY id")]

    assert samples == list(range(len(samples)))
    assert samples[-1] > 0
    first_lost = events[min(len(samples), len(events) - 1)]
    assert events[-1] - first_lost < 1


# -- formats ------------------------------------------------------------------------------------------------------


def test_a_store_of_the_first_format_gets_the_table_of_events(store, path):
    store.begin_run("run0", started="then", seed=0, alpha=0.05, correction="holm", environment={})
    store.execute("DROP TABLE events")
    store.execute("UPDATE store_format SET version = 1")
    upgraded = RunStore(str(path))
    record(upgraded, event())
    result, run = rows(upgraded), upgraded.run("run0")
    upgraded.close()

    assert len(result) == 1
    assert run["started"] == "then"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version FROM store_format").fetchall() == [(schema.FORMAT,)]
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'ix_events_run'").fetchone() == (1,)


KEY = "sk-0123456789abcdefXY"


@pytest.mark.parametrize("events", [{"error": f"no: {KEY}"}, {"sample": KEY}, {"winner": [KEY]}], ids=str)
def test_a_key_in_an_event_is_not_stored(path, events):
    with closing(RunStore(str(path), hider())) as opened:
        record(opened, event(**events))

    with closing(sqlite3.connect(path)) as database:
        (row,) = database.execute("SELECT sample, error, facts FROM events").fetchall()
    assert KEY not in str(row)
    assert HIDDEN in str(row)


# -- counted by the database --------------------------------------------------------------------------------------

SOME = st.builds(
    event,
    st.sampled_from(["request.stop", "request.retry", "limiter.wait", "hedge.fired", "cache.hit"]),
    at=st.integers(0, 500).map(float),
    arm=st.sampled_from(["v1", "v2"]),
    experiment=st.sampled_from([T, U, ""]),
    seconds=st.none() | st.integers(0, 9).map(float),
    error=st.sampled_from(["429", "cancelled"]) | st.none(),
    input_tokens=st.none() | st.integers(0, 9),
    cost_usd=st.none() | st.sampled_from([0.25, 0.5]),
)


@pytest.fixture(scope="module")
def many_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunStore, Iterator[str]]]:
    """A store, and ids for the run of each example."""
    with closing(RunStore(str(tmp_path_factory.mktemp("store") / "runs.db"))) as opened:
        yield opened, (f"run{number}" for number in itertools.count())


@given(some=st.lists(SOME, min_size=1, max_size=20))
def test_the_database_counts_what_reading_all_events_counts(many_runs, some):
    store, run = many_runs[0], next(many_runs[1])
    record(store, *some, run=run)

    read = {place: set(of_arm.counts) for place, of_arm in load_events(store, run).items()}
    counted = {place: set(of_arm.counts) for place, of_arm in count_events(store, run).items()}

    assert counted == read


@given(some=st.lists(SOME, min_size=1, max_size=20), parts=st.integers(1, 9))
def test_the_parts_of_a_runs_time_have_all_of_its_events(many_runs, some, parts):
    store, run = many_runs[0], next(many_runs[1])
    record(store, *some, run=run)
    course = event_course(store, run, parts)

    of_arms = [item for item in some if item.experiment]
    if course is None:
        assert not of_arms
        return
    names = [item.name for item in of_arms if not (item.name == "request.stop" and item.facts["error"])]
    assert sum(part.answered for part in course.parts) == names.count("request.stop")
    assert sum(part.retried for part in course.parts) == names.count("request.retry")
    assert sum(part.cached for part in course.parts) == names.count("cache.hit")
    assert all(0 <= part.number <= parts for part in course.parts)


def test_a_part_of_time_has_the_means_of_its_own_events(store):
    record(store, event(at=10.0, seconds=1.0), event(at=11.0, seconds=3.0), event(at=20.0, seconds=7.0))

    course = event_course(store, "run1", 5)

    assert course is not None
    assert course.width == 2.0
    assert [(part.number, part.answered, part.latency) for part in course.parts] == [(0, 2, 2.0), (5, 1, 7.0)]
