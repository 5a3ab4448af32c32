"""Each way in which a run store cannot be opened, with a real database in that state, and its sentence."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import pytest

from pytest_crucible.records.errors import StoreError
from pytest_crucible.store.engine import explain_errors, open_engine
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import FORMAT


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """A run store in good health, closed."""
    path = tmp_path / "runs.db"
    RunStore(str(path)).close()
    return path


def refusal(location: Path | str, *, busy_s: float = 5.0) -> str:
    with pytest.raises(StoreError) as raised:
        open_engine(str(location), busy_s=busy_s)
    return str(raised.value)


def test_another_process_holds_it(store_path):
    with closing(sqlite3.connect(store_path)) as holder:
        holder.execute("BEGIN EXCLUSIVE")

        sentence = refusal(store_path, busy_s=0.05)
    assert sentence == (
        f"run store {str(store_path)!r} is locked by another process: wait for it, or name another store with "
        "--crucible-store"
    )


def test_another_process_holds_one_that_is_still_empty(tmp_path):
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path)) as holder:
        holder.execute("BEGIN EXCLUSIVE")

        assert "is locked by another process" in refusal(path, busy_s=0.05)


def test_it_waits_for_another_process(store_path):
    """The other one lets go after a moment."""
    code = (
        "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN EXCLUSIVE'); print(flush=True)"
    )
    command = [sys.executable, "-c", f"{code}; time.sleep(0.3); c.rollback()", str(store_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        open_engine(str(store_path), busy_s=20).dispose()


def test_it_is_read_only(store_path):
    location = f"sqlite:///file:{store_path}?mode=ro&uri=true"

    assert refusal(location) == (
        f"run store {location!r} is read-only: make it writable, or name another store with --crucible-store"
    )


def test_it_is_another_kind_of_file(tmp_path):
    path = tmp_path / "notes.db"
    path.write_bytes(b"These are notes, and no database. " * 100)

    assert refusal(path) == (
        f"run store {str(path)!r} is not a run store (another kind of file, or corrupt): move it away, or name another "
        "one"
    )


def test_it_was_cut_off(store_path):
    store_path.write_bytes(store_path.read_bytes()[: 4096 + 100])

    refused = refusal(store_path)

    assert refused == (f"run store {str(store_path)!r} is corrupt: move it away and start a new one, or restore a copy")


def test_it_is_of_a_newer_version(store_path):
    with closing(sqlite3.connect(store_path)) as connection, connection:
        connection.execute("UPDATE store_format SET version = 99")

    refused = refusal(store_path)

    assert refused == (
        f"run store {str(store_path)!r} has format 99, this version writes format {FORMAT}: upgrade pytest-crucible, or name "
        "another store with --crucible-store"
    )


def test_a_table_is_missing(store_path):
    with closing(sqlite3.connect(store_path)) as connection, connection:
        connection.execute("DROP TABLE runs")

    refused = refusal(store_path)

    assert refused == (
        f"run store {str(store_path)!r} cannot be used (no such table: runs): repair it, or name another "
        "store with --crucible-store"
    )


def test_a_file_is_in_the_way_of_its_directory(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "runs.db"

    sentence = refusal(path)
    assert sentence.startswith(f"run store {str(path)!r} cannot be created: ")
    assert "File exists" in sentence


def test_a_url_names_a_directory_that_is_not_there(tmp_path):
    location = f"sqlite:///{tmp_path}/nowhere/runs.db"

    assert refusal(location) == (
        f"run store {location!r} cannot be opened: check that its directory exists and can be written to"
    )


def test_it_is_a_directory(tmp_path):
    assert refusal(tmp_path) == (
        f"run store {str(tmp_path)!r} cannot be opened: check that its directory exists and can be written to"
    )


@pytest.mark.parametrize("location", ["nosuch://host/name", "://", "https://example.org/runs"])
def test_it_is_no_url(location):
    assert refusal(location) == (
        f"run store {location!r} is not a database that can be reached: write a path, or a URL such as "
        "postgresql://host/name"
    )


def test_a_missing_directory_is_made_and_kept_out_of_commits(tmp_path):
    path = tmp_path / "deep" / ".crucible" / "crucible.db"
    RunStore(str(path)).close()

    assert path.exists()
    assert (path.parent / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_only_our_own_directory_is_kept_out_of_commits(tmp_path):
    RunStore(str(tmp_path / "results" / "runs.db")).close()

    assert [path.name for path in (tmp_path / "results").iterdir()] == ["runs.db"]


@pytest.mark.parametrize("name", ["what? now", "50%20", "a#b", "ünï ☃", "a&b=c"])
def test_any_file_name_is_a_path(tmp_path, name):
    path = tmp_path / name / "runs.db"
    RunStore(str(path)).close()

    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert path.stat().st_size > 0


def test_it_opens_as_it_was_left(store_path):
    before = store_path.read_bytes()
    RunStore(str(store_path)).close()

    assert store_path.read_bytes() == before


@pytest.mark.slow
def test_processes_that_make_it_at_once_all_succeed(tmp_path):
    """xdist workers start together."""
    code = textwrap.dedent(
        """
        import sys, time
        from pytest_crucible.store.runs import RunStore
        print("ready", flush=True)
        start = float(sys.stdin.readline())
        while time.time() < start:
            pass
        for k in range(6):
            RunStore(f"{sys.argv[1]}/{k}/runs.db").close()
        """
    )
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], text=True, **pipes) for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write(f"{time.time() + 0.05}\n")
        process.stdin.flush()

    assert [(process.communicate()[1], process.returncode) for process in processes] == [("", 0)] * 4


def test_a_server_is_not_waited_for_for_ever(postgresql):
    engine = open_engine(postgresql, busy_s=7)
    with engine.connect() as connection:
        parameters = connection.connection.dbapi_connection.info.get_parameters()
        lock = connection.exec_driver_sql("show lock_timeout").scalar()
    engine.dispose()

    assert (parameters["tcp_user_timeout"], parameters["connect_timeout"], lock) == ("7000", "10", "7s")


def test_a_server_is_lost_in_mid_work(postgresql):
    """Its process for this connection is killed, as the one that watches over them would be."""
    engine = open_engine(postgresql)
    with pytest.raises(StoreError) as raised, explain_errors("X"), engine.connect() as connection:
        connection.exec_driver_sql("select pg_terminate_backend(pg_backend_pid())")
    engine.dispose()

    assert str(raised.value) == (
        "run store 'X' has lost its server: start it again, then resume with --crucible-resume"
    )
