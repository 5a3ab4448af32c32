"""Writing that survives: a full disk, a killed process, two processes at once."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from plan_builders import plan_of

from pytest_crucible.records import Event, ModelCall, Observation, Outcome, Reply, Sample, Unit
from pytest_crucible.records.errors import StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.outcomes import load_outcomes
from pytest_crucible.store.row_batch import RowBatch
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.spill_file import write_spill_file
from pytest_crucible.store.writer import MAX_WAITING_ROWS, Writer

PLAN = plan_of()

PROGRAM = """
import resource, sys, time
from pytest_crucible.records.errors import StoreError
from pytest_crucible.records import Observation, Outcome, Reply, Unit
from pytest_crucible.store.runs import RunStore

path, arm, first, count, pause, limit = sys.argv[1], *map(float, sys.argv[2:])
store = RunStore(path)
store.begin_run("run", started="", seed=0, alpha=0.05, correction="holm", environment={})  # it is there already
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
writer = store.writer()
try:
    for k in range(int(first), int(first + count)):
        seen = [Observation(Unit(k, 0, 0, 0), "exact", True)]
        writer.add(Outcome(Unit(k, 0, 0, 0), reply=Reply(text=f"reply {k} " + "x" * 200)), int(arm), seen, [])
        print(k, time.monotonic(), flush=True)
        time.sleep(pause)
    writer.close()
except StoreError as error:
    print(error)
    try:
        writer.close()
    except StoreError:
        sys.exit(3)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> Iterator[RunStore]:
    opened = RunStore(str(path))
    yield opened
    opened.close()


def enter_experiment(store: RunStore) -> tuple[int, int]:
    store.begin_run("run", started="now", seed=0, alpha=0.05, correction="holm", environment={})
    experiment = store.add_experiment("run", PLAN, [Sample(id="q", input=1)])
    return experiment, store.add_arm(experiment, 0, "v2", "")


def program(
    path: Path, arm: int, first: int, count: int, *, pause: float = 0.0, limit: int = 0
) -> subprocess.Popen[str]:
    numbers = map(str, (arm, first, count, pause, limit))
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), *numbers], stdout=subprocess.PIPE, text=True)


def add(writer, arm: int, position: int) -> None:
    outcome = Outcome(Unit(position, 0, 0, 0), reply=Reply(text="x" * 1000))
    writer.add(outcome, arm, [Observation(Unit(position, 0, 0, 0), "exact", True)], [])


def fill(writer, arm: int, *, at_once: int) -> None:
    for k in range(10**6):
        add(writer, arm, k)
        if k % at_once == at_once - 1:
            writer.flush()


@pytest.mark.slow
def test_two_processes_at_once_lose_and_double_no_row(store, path):
    """Their ranges overlap: both say the same of units 1,500 to 2,999."""
    experiment, arm = enter_experiment(store)
    processes = [program(path, arm, first, 3000) for first in (0, 1500)]
    for process in processes:
        process.communicate()

    answers = load_outcomes(store, experiment, 0)
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(answers.positions) == list(range(4500))
    assert sorted(answers.scores["exact"].positions) == list(range(4500))


def killed_after(process: subprocess.Popen[str], seconds: float) -> tuple[list[tuple[int, float]], float]:
    """Return the rows that the program printed as added with their times, and the time of the kill."""
    assert process.stdout is not None
    lines: list[tuple[int, float]] = []
    while not lines or lines[-1][1] - lines[0][1] < seconds:
        number, when = process.stdout.readline().split()
        lines.append((int(number), float(when)))
    process.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    rest = process.communicate()[0].splitlines(keepends=True)
    lines += [(int(line.split()[0]), float(line.split()[1])) for line in rest if line.endswith("\n")]
    return lines, killed


@pytest.mark.slow
def test_a_killed_process_loses_at_most_its_last_second(store, path):
    experiment, arm = enter_experiment(store)
    added, killed = killed_after(program(path, arm, 0, 10**6, pause=0.002), 1.5)

    stored = sorted(load_outcomes(store, experiment, 0).positions)
    must = [k for k, when in added if when < killed - 1]
    assert len(must) > 50
    assert stored == list(range(len(stored)))
    assert len(must) <= len(stored) <= len(added) + 1


@pytest.mark.slow
def test_a_store_stays_whole_when_its_writer_is_killed(store, path):
    """A later process can read it, and write to it."""
    experiment, arm = enter_experiment(store)
    killed_after(program(path, arm, 0, 10**6), 0.8)
    writer = store.writer()
    add(writer, arm, 10**7)
    writer.close()

    answers = load_outcomes(store, experiment, 0)
    assert len(answers.positions) > 1
    assert sorted(answers.positions) == sorted(answers.scores["exact"].positions)
    assert 10**7 in answers.positions
    assert store.scalar("PRAGMA integrity_check") == "ok"


def test_a_full_disk_stops_the_run_and_the_next_one_enters_its_rows(store, path):
    """SQLite's own limit on pages gives the error of a full disk."""
    experiment, arm = enter_experiment(store)
    pages = store.scalar("PRAGMA page_count")
    # Of the one connection, which the writer uses next.
    store.scalar(f"PRAGMA max_page_count = {pages + 30}")
    writer = store.writer()
    with pytest.raises(StoreError) as raised:
        fill(writer, arm, at_once=20)

    stored = len(load_outcomes(store, experiment, 0).positions)
    [remaining] = Path(f"{path}.unsaved").iterdir()
    assert str(raised.value) == (
        f"run store {str(path)!r} cannot be written, the disk is full: free space, then resume with --crucible-resume "
        f"(41 rows of this run kept in {str(remaining)!r}, from where the next run takes them)"
    )
    assert stored > 0
    assert stored % 20 == 0
    with pytest.raises(StoreError, match="the disk is full"):
        add(writer, arm, 10**7)
    with pytest.raises(StoreError, match="the disk is full"):
        writer.close()

    store.database.dispose()
    again = RunStore(str(path))  # there is room again
    assert sorted(load_outcomes(again, experiment, 0).positions) == [*range(stored + 20), 10**7]
    assert not remaining.exists()
    again.close()


@pytest.mark.slow
def test_add_raises_the_error_of_a_write_in_the_background(store, path):
    """No flush is needed: the writing thread passes the error to the adding one."""
    _, arm = enter_experiment(store)
    process = program(path, arm, 0, 10**6, pause=0.0005, limit=path.stat().st_size + 2**17)
    lines = process.communicate(timeout=60)[0].splitlines()

    assert process.returncode == 3
    assert lines[-1].startswith(f"run store {str(path)!r} cannot be written")
    assert re.search(r"rows of this run (not saved|kept in .*)\)", lines[-1])


def test_calls_that_cannot_become_rows_raise_an_error(store):
    """The thread turns them into rows, and a guard that redacts them may raise anything."""
    _, arm = enter_experiment(store)
    call = ModelCall(text="[half a li", is_json=True, request=1, parameters=None, system="")
    writer = store.writer()
    writer.add(Outcome(Unit(0, 0, 0, 0), calls=[call], sample=Sample(id="a", input="?")), arm, [], [])

    with pytest.raises(StoreError, match=r"cannot take it: JSONDecodeError.* \(1 row of this run not saved\)"):
        writer.close()


def test_rows_that_a_damaged_file_refuses_are_spilled(store, path):
    _, arm = enter_experiment(store)
    writer = store.writer()
    page, size = map(store.scalar, ("SELECT rootpage FROM sqlite_master WHERE name = 'replies'", "PRAGMA page_size"))
    store.scalar("PRAGMA wal_checkpoint(TRUNCATE)")
    store.database.dispose()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    writer.add(Outcome(Unit(0, 0, 0, 0)), arm, [], [])

    with pytest.raises(StoreError, match="1 row of this run kept in"):
        writer.close()


@pytest.mark.slow
def test_the_next_run_enters_rows_that_a_full_disk_refused(store, path):
    """The kernel's limit on the size of a file: the database has reached it, and a new file has not."""
    experiment, arm = enter_experiment(store)
    process = program(path, arm, 0, 10**6, pause=0.0005, limit=path.stat().st_size + 2**19)
    added = len(process.communicate(timeout=60)[0].splitlines()) - 1

    RunStore(str(path)).close()

    assert len(load_outcomes(store, experiment, 0).positions) in (added, added + 1)
    assert list(Path(f"{path}.unsaved").iterdir()) == []


def test_spill_files_of_an_unknown_run_are_left_alone(store, path):
    row = {"arm": 1, "position": 0, "epoch": 0, "skipped": False}
    write_spill_file(str(path), store.key, "another run", [(schema.replies, False, [row])])

    RunStore(str(path)).close()

    assert list(store.rows("SELECT * FROM replies")) == []
    assert len(list(Path(f"{path}.unsaved").glob("*.jsonl"))) == 1


def test_rows_of_features_wait_in_spill_files_too(store, path):
    _, arm = enter_experiment(store)
    row = {"arm": arm, "position": 0, "epoch": 0, "number": 1, "kind": "decision", "decision": "a", "rejected": ["b"]}
    row |= {"is_claim": False, "calls": 0, "at": 1.0}
    write_spill_file(str(path), store.key, "run", [(schema.unit_tables()["trace_events"], False, [row])])

    RunStore(str(path)).close()

    assert list(store.rows("SELECT decision, rejected FROM trace_events")) == [("a", '["b"]')]


def test_rows_about_blocks_of_a_cluster_wait_in_spill_files_too(store, path):
    experiment, _ = enter_experiment(store)
    [blocks] = (table for table in schema.feature_tables() if table.name == "blocks")
    row = {"experiment": experiment, "number": 1, "round": 0, "positions": [0], "node": "gpu-1", "worker": "gpu-1/0"}
    row |= {"started": 1.0, "finished": 2.0, "units": 1, "lost": 0, "retries": 0, "dealt": 1}
    write_spill_file(str(path), store.key, "run", [(blocks, False, [row])])

    RunStore(str(path)).close()

    assert list(store.rows("SELECT node, units FROM blocks")) == [("gpu-1", 1)]


def test_a_spill_file_of_a_killed_process_is_entered_by_the_next_one(store, path):
    _, arm = enter_experiment(store)
    row = {"arm": arm, "position": 0, "epoch": 0, "skipped": False}
    spill_file = write_spill_file(str(path), store.key, "run", [(schema.replies, False, [row])])
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    other_file = spill_file.rename(spill_file.with_suffix(f".{gone.pid}"))
    others = spill_file.with_suffix(f".{os.getppid()}")
    others.write_text("of a process that is at it")

    RunStore(str(path)).close()

    assert list(store.scalars("SELECT position FROM replies")) == [0]
    assert not other_file.exists()
    assert others.exists()


def test_a_batch_is_written_in_one_order():
    """Two sessions that write the same answers would else lock the tables, and the rows, crosswise."""
    batches = RowBatch(), RowBatch()
    for batch, tables in zip(batches, ((schema.lost, schema.replies), (schema.replies, schema.lost)), strict=True):
        for table in tables:
            batch.rows[table] = [{"arm": 1, "position": k, "epoch": 0, "metric": ""} for k in (2, 0, 1)]
    first, second = (
        [(table.name, [row["position"] for row in rows]) for table, _, rows in batch.tables()] for batch in batches
    )

    assert first == second == [("lost", [0, 1, 2]), ("replies", [0, 1, 2])]


def add_answer(writer: Writer, arm: int, part: int, k: int) -> None:
    add(writer, arm, 500 * part + k)


def put_cached_reply(writer: Writer, arm: int, part: int, k: int) -> None:
    writer.put(schema.reply_cache, {"key": f"{part}-{k:04}", "identity": "v2", "created": 1.0, "reply": "{}"})


@pytest.mark.parametrize(
    ("write", "table", "number"),
    [
        (add_answer, "replies", 500),
        pytest.param(put_cached_reply, "reply_cache", 2000, marks=pytest.mark.slow),
    ],
)
def test_sessions_that_write_the_same_rows_in_other_orders_do_not_lock_each_other(postgresql, write, table, number):
    stores = [RunStore(postgresql) for _ in range(2)]
    _, arm = enter_experiment(stores[0])

    def write_all(store: RunStore, order: int) -> None:
        writer = store.writer()
        for part in range(8):
            for k in range(number)[::order]:
                write(writer, arm, part, k)
            writer.flush()
        writer.close()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write_all, stores, (1, -1)))

    assert stores[0].scalar(f"SELECT COUNT(*) FROM {table}") == 8 * number
    for store in stores:
        store.close()


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_texts_that_no_database_takes_lose_no_row(where, path, request):
    """NUL, half of a surrogate pair, and more words than there is room for."""
    store = RunStore(str(path) if where == "sqlite" else str(request.getfixturevalue("postgresql")))
    odd = "nul \0 half \ud83d"
    _, arm = enter_experiment(store)
    store.add_experiment("run", replace(PLAN, nodeid="odd", dataset_sha256="e"), [Sample(id=odd, input=odd, group=odd)])
    writer = store.writer()
    writer.add(
        Outcome(Unit(0, 0, 0, 0), reply=Reply(text=odd, finish=f"ended in words of its own, {odd}")), arm, [], []
    )
    writer.tell("run", Event(name="request.stop", at=1.0, sample=odd, facts={"error": odd, "said": odd}))
    writer.close()

    good = "nul \ufffd half \ufffd"
    assert list(store.rows("SELECT text, finish FROM replies")) == [(good, "ended in words o")]
    assert list(store.rows("SELECT sample, error FROM events")) == [(good, good)]
    assert store.scalar("SELECT sample_id FROM samples WHERE dataset = 'e'") == good
    store.close()


def test_an_unreadable_spill_file_is_named(store, path):
    spill_file = write_spill_file(str(path), store.key, "run", [])
    spill_file.write_text("half a li")

    with pytest.raises(StoreError, match="move the file away to continue without them"):
        RunStore(str(path))
    spill_file.unlink()
    RunStore(str(path)).close()


def test_too_many_waiting_rows_pause_the_sampling(store, path, monkeypatch):
    """Long before the first of them has waited for too long: a model can be faster than any disk."""
    monkeypatch.setattr("pytest_crucible.store.writer.MAX_WAIT_S", 60.0)
    _, arm = enter_experiment(store)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        writer = store.writer()
        added = 0
        while not writer.behind() and added < 4 * MAX_WAITING_ROWS:
            add(writer, arm, added)
            added += 1
        holder.execute("ROLLBACK")
    writer.close()

    assert MAX_WAITING_ROWS // 2 <= added < 4 * MAX_WAITING_ROWS  # of two rows each
    assert not writer.behind()


def test_a_row_is_committed_without_a_flush(store, path):
    """Another process sees an answer within a second, without a flush."""
    experiment, arm = enter_experiment(store)
    writer = store.writer()
    add(writer, arm, 0)
    deadline = time.monotonic() + 60
    while not load_outcomes(store, experiment, 0).positions and time.monotonic() < deadline:
        time.sleep(0.05)
    waited = 60 - (deadline - time.monotonic())
    writer.close()

    assert waited < 30
