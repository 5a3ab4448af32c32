"""Rows of a run in Parquet parts: moved there, read through DuckDB, scanned, restored and removed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_crucible.records.errors import SpecError, StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

from pytest_crucible.store.part_moves import (
    forget_parts,
    move_rows,
    remove_files,
    remove_orphans,
    restore_rows,
    restored_arm,
)
from pytest_crucible.store.parts import ResultsFolder
from pytest_crucible.store.scanned_rows import scan_rows

RUN = "0123456789ab"
SAMPLES = 300


def observation(arm, position, metric="exact", value=1.0):
    return {"arm": arm, "position": position, "epoch": 0, "metric": metric, "value": value, "is_bool": True}


def reply(arm, position, text="yes"):
    row = {"arm": arm, "position": position, "epoch": 0, "text": text, "latency_s": 0.5, "skipped": False}
    return {**row, "finish": "stop", "started": 1.5}


def fill(store, run=RUN, samples=SAMPLES):
    """Enter a run with two arms, and their replies and scores in a random order. Return the keys of the arms."""
    store.insert(
        schema.runs,
        [
            {
                "id": run,
                "started": "2026",
                "status": "running",
                "seed": 0,
                "alpha": 0.05,
                "correction": "holm",
                "environment": {},
            }
        ],
    )
    store.insert(schema.experiments, [{"run": run, "nodeid": "t", "plan": {}, "finished": True}])
    experiment = store.scalar("SELECT id FROM experiments WHERE run = :run", run=run)
    arms = [store.add_arm(experiment, number, f"v{number}", "f") for number in (0, 1)]
    units = [(arm, position) for arm in arms for position in range(samples)]
    random.Random(1).shuffle(units)
    store.insert(schema.replies, [reply(*unit) for unit in units])
    store.insert(schema.observations, [observation(*unit, value=float(unit[1] % 3 == 0)) for unit in units])
    store.insert(schema.lost, [{"arm": arms[0], "position": 7, "epoch": 0, "metric": "rouge", "reason": "error"}])
    return arms


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    on_server = request.param == "postgresql"
    store = RunStore(request.getfixturevalue("postgresql_store") if on_server else str(tmp_path / "crucible.db"))
    yield store
    store.close()


@pytest.fixture
def results(tmp_path):
    return ResultsFolder(str(tmp_path / "results"))


@pytest.fixture
def moved(store, results):
    """A run whose rows are in parts: the keys of its arms."""
    arms = fill(store)
    move_rows(store, results, RUN)
    return arms


def stored_count(store, table):
    with store.connect() as connection:
        return next(iter(connection.execute_stored(f"SELECT COUNT(*) FROM {table}")))[0]


QUERIES = [
    "SELECT position, epoch, value, is_bool FROM observations WHERE arm = :arm AND metric = 'exact' AND label IS NULL",
    "SELECT position, epoch, failure, skipped FROM replies WHERE arm = :arm",
    "SELECT name, COUNT(*) FROM observations JOIN arms ON arms.id = arm WHERE arms.id IN (:arms) GROUP BY name",
    "SELECT position, metric, reason FROM lost WHERE arm = :arm",
    "SELECT COUNT(*), MAX(value) FROM observations",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_returns_the_same_rows_from_parts(store, results, query):
    arms = fill(store)
    values = {"arm": arms[0]} if ":arm " in f"{query} " else {"arms": arms} if ":arms" in query else {}
    before = sorted(store.rows(query, **values))

    move_rows(store, results, RUN)

    assert stored_count(store, "observations") == 0
    assert sorted(store.rows(query, **values)) == before


def test_rows_that_are_stored_after_the_move_are_read_beside_the_parts(store, moved):
    store.insert(schema.observations, [observation(moved[0], SAMPLES)])

    assert store.scalar("SELECT COUNT(*) FROM observations WHERE arm = :arm", arm=moved[0]) == SAMPLES + 1


def test_a_run_without_parts_is_read_from_the_store_alone(store, moved):
    others = fill(store, "another", samples=3)

    assert store.scalar("SELECT COUNT(*) FROM observations WHERE arm = :arm", arm=others[0]) == 3


def test_texts_and_messages_move_with_the_rows_that_refer_to_them(store, results):
    arms = fill(store, samples=2)
    store.insert(schema.texts, [{"id": b"k" * 16, "body": "long"}])
    store.insert(schema.replies, [{**reply(arms[0], 5, None), "text_id": b"k" * 16}])
    store.insert(schema.messages, [{"id": 9, "body": b"form"}])
    call = {"arm": arms[0], "position": 5, "epoch": 0, "call": 1, "member": "", "request": 1, "is_scored": True}
    store.insert(schema.calls, [{**call, "messages": 9}])
    move_rows(store, results, RUN)
    with store.begin() as connection:
        connection.execute_stored("DELETE FROM texts")
        connection.execute_stored("DELETE FROM messages")

    text = "SELECT (SELECT body FROM texts WHERE texts.id = replies.text_id) FROM replies WHERE arm = :arm AND position = 5"
    form = "SELECT messages.body FROM calls LEFT JOIN messages ON messages.id = calls.messages WHERE calls.arm = :arm"
    assert (store.scalar(text, arm=arms[0]), store.scalar(form, arm=arms[0])) == ("long", b"form")


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_table_with_a_value_that_parquet_cannot_hold_stays_in_the_store(store, results):
    """PostgreSQL has rounded it."""
    fill(store, samples=2)
    event = {"run": RUN, "experiment": "t", "arm": "v0", "sample": "", "epoch": 0, "name": "request.stop", "at": 1.0}
    store.insert(schema.events, [{**event, "input_tokens": 12.5}])

    tables = {part.of_table for part in move_rows(store, results, RUN)}

    assert tables == {"lost", "observations", "replies"}
    assert stored_count(store, "events") == 1
    assert store.scalar("SELECT input_tokens FROM events WHERE run = :run", run=RUN) == 12.5


def test_restored_rows_are_those_that_were_moved(store, results):
    fill(store)
    with store.connect() as connection:
        before = [
            sorted(connection.execute_stored(f"SELECT * FROM {name}")) for name in ("replies", "observations", "lost")
        ]
    move_rows(store, results, RUN)

    with store.begin() as connection:
        restore_rows(connection, RUN)

    with store.connect() as connection:
        after = [
            sorted(connection.execute_stored(f"SELECT * FROM {name}")) for name in ("replies", "observations", "lost")
        ]
    assert after == before
    assert stored_count(store, "parts") == 0


def test_an_arm_is_in_the_store_while_it_is_copied_and_its_later_rows_stay(store, moved):
    store.insert(schema.observations, [observation(moved[0], SAMPLES)])

    with store.begin() as connection, restored_arm(connection, moved[0]):
        count = connection.scalar("SELECT COUNT(*) FROM observations WHERE arm = :arm", arm=moved[0])

    assert (count, stored_count(store, "observations")) == (SAMPLES + 1, 1)


# -- scans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 10, 100_000])
def test_a_scan_yields_every_row_with_all_rows_of_a_sample_together(store, results, rows):
    arms = fill(store, samples=0)
    units = [(arm, position) for arm in arms for position in range(500)]
    random.Random(2).shuffle(units)
    for first in range(0, 900, 90):
        store.insert(schema.observations, [observation(*unit) for unit in units[first : first + 90]])
        move_rows(store, results, RUN)
    store.insert(schema.observations, [observation(*unit) for unit in units[900:]])

    ranges = list(scan_rows(store, RUN, schema.observations, ["arm", "position"], rows=rows))

    positions = [table["position"].to_pylist() for _, table in ranges]
    assert all(max(many) <= last for (last, _), many in zip(ranges, positions, strict=True) if many)
    assert all(last < min(after) for (last, _), after in zip(ranges, positions[1:], strict=False) if after)
    assert sorted((row["arm"], row["position"]) for _, table in ranges for row in table.to_pylist()) == sorted(units)


def test_a_scan_in_numbers_of_positions_ends_each_range_at_a_multiple(store, results):
    fill(store, samples=40)
    move_rows(store, results, RUN)

    ranges = list(scan_rows(store, RUN, schema.replies, ["position"], positions=16))

    assert [last for last, _ in ranges] == [15, 31, 47]
    assert [set(table["position"].to_pylist()) for _, table in ranges] == [
        set(range(16)),
        set(range(16, 32)),
        set(range(32, 40)),
    ]


def test_a_scan_of_a_run_without_parts_reads_the_store(store):
    fill(store, samples=4)

    [(last, table)] = scan_rows(store, RUN, schema.replies, ["position", "skipped"])

    assert last >= 3
    assert table["position"].to_pylist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_column_with_one_value_is_scanned_as_any(store, results):
    """The file's own statistics tell it, so that it need not be decoded; other parts may have other values."""
    arms = fill(store, samples=0)
    for epoch in (0, 3):
        rows = [{**observation(arms[0], position), "epoch": epoch} for position in range(20)]
        store.insert(schema.observations, rows)
        move_rows(store, results, RUN)

    columns = ["arm", "position", "epoch", "value"]
    [(_, table)] = scan_rows(store, RUN, schema.observations, columns)

    rows = sorted(tuple(row[name] for name in columns) for row in table.to_pylist())
    assert rows == [(arms[0], position, epoch, 1.0) for position in range(20) for epoch in (0, 3)]


# -- files that are not those of the manifest --------------------------------------------------------------------------


def part_file(results, table="observations"):
    return next(Path(results.root).rglob(f"{table}-*.parquet"))


def refuse(store, arm, sentence):
    with pytest.raises(StoreError, match=sentence):
        store.scalar("SELECT COUNT(*) FROM observations WHERE arm = :arm", arm=arm)
    with pytest.raises(StoreError, match=sentence):
        list(scan_rows(store, RUN, schema.observations, ["arm", "metric"]))


def test_a_truncated_part_is_named(store, results, moved):
    path = part_file(results)
    path.write_bytes(path.read_bytes()[:-10])

    refuse(store, moved[0], rf"part '{RUN}/{path.name}' of '.*' has \d+ bytes, the manifest says \d+: restore the file")


def test_a_missing_part_is_named(store, results, moved):
    path = part_file(results)
    path.unlink()

    refuse(store, moved[0], f"part '{RUN}/{path.name}' .* is missing")


def test_a_file_of_noise_is_named(store, results, moved):
    path = part_file(results)
    path.write_bytes(os.urandom(path.stat().st_size))

    refuse(store, moved[0], f"part '{RUN}/{path.name}' .* cannot be read")


def test_a_part_with_other_columns_is_named(store, results, moved):
    path, other = part_file(results), part_file(results, "replies")
    path.write_bytes(other.read_bytes())
    with store.begin() as connection:
        size = path.stat().st_size
        connection.execute("UPDATE parts SET bytes = :size WHERE of_table = 'observations'", size=size)

    refuse(store, moved[0], "has other columns than table 'observations'")


@pytest.mark.parametrize(
    "path", ["../secrets.parquet", "/etc/passwd", f"{RUN}/../../x-{'0' * 32}.parquet", "a'); DROP"]
)
def test_a_path_outside_of_the_results_is_refused(store, moved, path):
    with store.begin() as connection:
        connection.execute("UPDATE parts SET path = :path WHERE of_table = 'observations'", path=path)

    refuse(store, moved[0], "is not below .*: the manifest was changed")


def test_a_part_of_a_table_that_runs_do_not_write_is_refused(store, moved):
    with store.begin() as connection:
        connection.execute("UPDATE parts SET of_table = 'store_key' WHERE of_table = 'observations'")

    with pytest.raises(StoreError, match="has rows of 'store_key'"):
        list(scan_rows(store, RUN, schema.observations, ["arm", "metric"]))


def test_an_address_with_credentials_is_refused():
    with pytest.raises(SpecError, match="credentials in its address"):
        ResultsFolder("s3://key:secret@bucket/runs")


@pytest.mark.parametrize("address", ["gopher://x/y", "s4://bucket"])
def test_an_address_that_pyarrow_does_not_know_is_refused(address):
    with pytest.raises(SpecError, match="is not an address that pyarrow opens"):
        ResultsFolder(address)


def test_an_address_without_tls_is_recognised():
    assert ResultsFolder("s3://bucket/runs?scheme=http&endpoint_override=localhost:9&region=x").is_unprotected
    assert not ResultsFolder("s3://bucket/runs?region=x").is_unprotected


# -- removal ----------------------------------------------------------------------------------------------------------


def test_files_of_a_removed_run_go_with_it(store, results, moved):
    with store.begin() as connection:
        parts = forget_parts(connection, RUN)

    assert remove_files(parts) > 0
    assert list(Path(results.root).rglob("*.parquet")) == []


def test_orphans_of_killed_processes_are_removed_and_files_of_other_stores_stay(store, results, moved):
    folder = Path(results.root)
    entered = set(folder.rglob("*.parquet"))
    (folder / RUN / f"replies-{'0' * 32}.parquet").write_text("never entered")
    (folder / RUN / f"replies-{'1' * 32}.parquet.draft").write_text("half")
    (folder / "othersrun").mkdir()
    (folder / "othersrun" / f"replies-{'0' * 32}.parquet").write_text("of another store")

    assert remove_orphans(store, [], time.time() - 3600) == 0
    assert remove_orphans(store, [], time.time() + 1) > 0

    assert {path for path in folder.rglob("*") if path.is_file()} == {
        *entered,
        folder / "othersrun" / f"replies-{'0' * 32}.parquet",
    }


MOVING = """
import sys
from pytest_crucible.store.part_moves import move_rows
from pytest_crucible.store.parts import ResultsFolder
from pytest_crucible.store.runs import RunStore

store, results = RunStore(sys.argv[1]), ResultsFolder(sys.argv[2])
print("ready", flush=True)
move_rows(store, results, sys.argv[3])
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_moves_rows_loses_none_and_doubles_none(tmp_path):
    store, results = RunStore(str(tmp_path / "crucible.db")), str(tmp_path / "results")
    samples = 10_000
    killed = 0
    for number in range(8):
        run = f"run{number}"
        arms = fill(store, run, samples=samples)
        process = subprocess.Popen(
            [sys.executable, "-c", MOVING, str(tmp_path / "crucible.db"), results, run], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(number).uniform(0.0, 0.6))
        process.kill()
        killed += process.wait() != 0
        process.stdout.close()

        for table in ("replies", "observations"):
            units = list(store.rows(f"SELECT arm, position FROM {table} WHERE arm IN (:arms)", arms=arms))
            assert len(units) == 2 * samples
            assert len(set(units)) == 2 * samples
    store.close()
    assert killed, "every process ended before it was killed"


# -- a server of objects ----------------------------------------------------------------------------------------------


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    """The address of a bucket of a local S3 server, without TLS."""
    program = shutil.which("moto_server")
    if program is None:
        pytest.skip("moto_server is not installed: there is no local S3 server")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    try:
        await_port(port, process)
        where = f"scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1&allow_delayed_open=true"
        from pyarrow.fs import FileSystem

        files, _ = FileSystem.from_uri(f"s3://runs?{where}&allow_bucket_creation=true")
        files.create_dir("runs")
        yield f"s3://runs/ours?{where}"
    finally:
        process.kill()
        process.wait()


def await_port(port, process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError("the S3 server did not start")


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_parts_in_a_bucket_are_read_scanned_and_removed(store, bucket):
    arms, results = fill(store), ResultsFolder(bucket)
    results.create()
    move_rows(store, results, RUN)

    assert results.is_unprotected
    assert store.scalar("SELECT COUNT(*) FROM observations WHERE arm = :arm", arm=arms[0]) == SAMPLES
    assert sum(table.num_rows for _, table in scan_rows(store, RUN, schema.observations, ["arm"])) == 2 * SAMPLES
    with store.begin() as connection:
        parts = forget_parts(connection, RUN)
    assert [results.digest(part.path) for part in parts] == [part.sha256 for part in parts]
    assert remove_files(parts) > 0
    assert results.digest(parts[0].path) == ""
    assert not results.files.get_file_info(results.locate(parts[0].path)).is_file
