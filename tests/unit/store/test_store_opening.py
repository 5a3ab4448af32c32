"""Opening databases."""

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
from pytest_crucible.store.opening import explain_errors, open_database
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
        open_database(str(location), busy_s=busy_s)
    return str(raised.value)


def test_a_store_that_another_process_locks_is_refused(store_path):
    with closing(sqlite3.connect(store_path)) as holder:
        holder.execute("BEGIN EXCLUSIVE")

        sentence = refusal(store_path, busy_s=0.05)
    assert sentence == (
        f"run store {str(store_path)!r} is locked by another process: wait for it, or name another store with "
        "--crucible-store"
    )


def test_an_empty_store_that_another_process_locks_is_refused(tmp_path):
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path)) as holder:
        holder.execute("BEGIN EXCLUSIVE")

        assert "is locked by another process" in refusal(path, busy_s=0.05)


def test_opening_waits_for_another_process(store_path):
    """The other one lets go after a moment."""
    code = (
        "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN EXCLUSIVE'); print(flush=True)"
    )
    command = [sys.executable, "-c", f"{code}; time.sleep(0.3); c.rollback()", str(store_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        open_database(str(store_path), busy_s=20).dispose()


def alter(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: path.write_bytes(b"These are notes, and no database. " * 100),
         "is not a run store (another kind of file, or corrupt): move it away, or name another one"),
        (lambda path: path.write_bytes(path.read_bytes()[: 4096 + 100]),
         "is corrupt: move it away and start a new one, or restore a copy"),
        (lambda path: alter(path, "UPDATE store_format SET version = 99"),
         f"has format 99, this version writes format {FORMAT}: upgrade pytest-crucible, or name another store with "
         "--crucible-store"),
        (lambda path: alter(path, "DROP TABLE runs"),
         "cannot be used (no such table: runs): repair it, or name another store with --crucible-store"),
    ],
    ids=["another file", "cut off", "newer version", "missing table"],
)  # fmt: skip
def test_a_damaged_store_is_refused(store_path, damage, problem):
    damage(store_path)

    assert refusal(store_path) == f"run store {str(store_path)!r} {problem}"


NOWHERE = "cannot be opened: check that its directory exists and can be written to"
NO_URL = "is not a database that can be reached: write a path, or a URL such as postgresql://host/name"


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("sqlite:///file:{path}?mode=ro&uri=true",
         "is read-only: make it writable, or name another store with --crucible-store"),
        ("sqlite:///{folder}/nowhere/runs.db", NOWHERE),
        ("{folder}", NOWHERE),
        (".", NOWHERE),
        ("sqlite:///", NO_URL),
        ("nosuch://host/name", NO_URL),
        ("://", NO_URL),
        ("https://example.org/runs", NO_URL),
    ],
)  # fmt: skip
def test_a_location_without_a_writable_store_is_refused(store_path, location, problem):
    location = location.format(path=store_path, folder=store_path.parent)

    assert refusal(location) == f"run store {location!r} {problem}"


@pytest.mark.parametrize("login", ["ann:12%x45", "ann:1234%005", "ann:12 345", "ann:12%x45@other"])
def test_a_password_that_the_driver_cannot_read_is_not_shown(login):
    pytest.importorskip("psycopg")

    sentence = refusal(f"postgresql://{login}@127.0.0.1:1/runs")
    assert sentence.endswith("must be percent-encoded: write %25 for %, and %20 for a space")
    assert "12" not in sentence.replace("127.0.0.1", "")


def test_a_url_has_its_path_percent_encoded(tmp_path):
    open_database(f"sqlite:///{tmp_path}/50%25%20of%20it.db").dispose()

    assert [path.name for path in tmp_path.iterdir()] == ["50% of it.db"]


def test_a_path_is_no_uri_of_sqlite(tmp_path, monkeypatch):
    """A file that SQLite creates by its URI can be read by other users."""
    monkeypatch.chdir(tmp_path)
    RunStore("file:runs.db").close()

    [path] = tmp_path.iterdir()
    assert (path.name, path.stat().st_mode & 0o077) == ("file:runs.db", 0)


@pytest.mark.parametrize("location", ["runs.db", "sqlite:///runs.db"])
def test_a_store_stays_where_it_is_while_the_directory_changes(tmp_path, monkeypatch, location):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    database = open_database(location)
    monkeypatch.chdir("other")
    with database.connect(), database.connect() as second:
        second.execute("SELECT id FROM runs")
    database.dispose()

    assert list((tmp_path / "other").iterdir()) == []


def test_a_file_is_in_the_way_of_its_directory(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "runs.db"

    sentence = refusal(path)
    assert sentence.startswith(f"run store {str(path)!r} cannot be created: ")
    assert "File exists" in sentence
    assert sentence.endswith("make its folder writable, or name another store with --crucible-store")


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


def test_opening_changes_no_byte(store_path):
    before = store_path.read_bytes()
    RunStore(str(store_path)).close()

    assert store_path.read_bytes() == before


@pytest.mark.slow
def test_processes_that_create_a_store_at_once_all_succeed(tmp_path):
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


def test_waiting_for_a_server_ends(postgresql):
    database = open_database(postgresql, busy_s=7)
    with database.connect() as connection:
        parameters = connection.raw.info.get_parameters()
        lock = connection.scalar("SHOW lock_timeout")
    database.dispose()

    assert (parameters["tcp_user_timeout"], parameters["connect_timeout"], lock) == ("7000", "10", "7s")


def test_a_lost_server_is_named(postgresql):
    """Its process for this connection is killed, as the one that watches over them would be."""
    database = open_database(postgresql)
    with pytest.raises(StoreError) as raised, explain_errors("X"), database.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    database.dispose()

    assert str(raised.value) == (
        "run store 'X' has lost its server: start it again, then resume with --crucible-resume"
    )


def test_a_server_that_was_restarted_is_connected_again(postgresql):
    """An idle connection has died with the server: the next statement opens a new one."""
    database = open_database(postgresql)
    with database.connect() as idle, database.connect() as killer:
        killer.execute("SELECT pg_terminate_backend(:process)", process=idle.scalar("SELECT pg_backend_pid()"))

    with database.connect() as first, database.connect() as second:
        assert [first.scalar("SELECT 1"), second.scalar("SELECT 1")] == [1, 1]
    database.dispose()
