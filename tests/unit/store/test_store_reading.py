"""Run stores that are only read: no file changes, and what is read is whole."""

from __future__ import annotations

import contextlib
import gzip
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from experiment_builders import store_run
from other_user import OTHER, run_as_other_user

from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError, StoreError
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.reporters import csv_report, html_report
from pytest_crucible.runs.run_store import open_for_reading, store_of
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.reading import ChangedStoreError
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import FORMAT
from pytest_crucible.store.spill_file import waiting_rows, write_spill_file

SAMPLES = [Sample(id=f"q{k}", input=f"{k} + {k}") for k in range(8)]
FORMAT_3 = Path(__file__).parents[2] / "data" / "stores" / "format3.db.gz"


@pytest.fixture
def path(tmp_path):
    """A run store with one finished run, closed, in a folder of its own."""
    folder = tmp_path / "stores"
    folder.mkdir()
    with contextlib.closing(RunStore(str(folder / "runs.db"))) as store:
        store_run(store, "aaaa", SAMPLES, v2=[True] * 8, v1=[True, False] * 4)
        store.end_run("aaaa", finished="2026-01-02", status="finished")
    # Reading takes no permissions away.
    (folder / "runs.db").chmod(0o644)
    return folder / "runs.db"


def files_of(path):
    """Return bytes, mode and time of each file of a store's folder."""
    files = sorted(path.parent.iterdir())
    return {file.name: (file.read_bytes(), file.stat().st_mode, file.stat().st_mtime_ns) for file in files}


def read_ids(path):
    with open_for_reading(str(path), "view") as store:
        return [run.id for run in list_runs(store)]


@contextlib.contextmanager
def writer(path):
    """Yield a function that lets another process, which has the store open, enter a run."""
    program = """if 1:
        import sys
        from pytest_crucible.store.runs import RunStore
        store = RunStore(sys.argv[1])
        print("open", flush=True)
        for line in sys.stdin:
            store.begin_run(line.strip(), started="2026-01-03", seed=0, alpha=0.05, correction="holm", environment={}, git=None)
            print("committed", flush=True)
        store.close()
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program, str(path)], text=True, **pipes) as process:
        assert process.stdout.readline() == "open\n"

        def enter_run(run):
            process.stdin.write(f"{run}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "committed\n"

        enter_run.process = process
        yield enter_run
        process.stdin.close()
        process.wait()


def count_runs(path):
    with open_for_reading(str(path), "view") as store:
        return store.scalar("SELECT COUNT(*) FROM runs")


def test_reading_everything_of_a_store_changes_no_file(path):
    before = files_of(path)

    with open_for_reading(str(path), "view") as store:
        run = load_run(store, "aaaa")
        assert "aaaa" in html_report(run)
        assert csv_report(run)

    assert files_of(path) == before
    assert list(before) == ["runs.db"]


def test_commits_of_a_killed_session_are_read_and_no_file_changes(path):
    with writer(path) as enter_run:
        enter_run("bbbb")
        enter_run.process.send_signal(signal.SIGKILL)
        enter_run.process.wait()
        enter_run.process.stdin.close()
    before = files_of(path)

    assert count_runs(path) == 2
    assert files_of(path) == before
    assert list(before) == ["runs.db", "runs.db-shm", "runs.db-wal"]


def test_each_commit_of_a_running_session_is_read_and_no_file_changes(path):
    with open_for_reading(str(path), "view") as store, writer(path) as enter_run:
        for number in range(3):
            enter_run(f"b{number}")
            before = files_of(path)

            assert store.scalar("SELECT COUNT(*) FROM runs") == 2 + number
            assert files_of(path) == before


def test_a_session_that_ends_leaves_one_file_although_the_store_is_open_for_reading(path):
    with open_for_reading(str(path), "view") as store:
        with writer(path) as enter_run:
            enter_run("bbbb")
            assert store.scalar("SELECT COUNT(*) FROM runs") == 2

        assert list(files_of(path)) == ["runs.db"]
        assert store.scalar("SELECT COUNT(*) FROM runs") == 2


def enter_one_run(path, connection):
    with writer(path) as enter_run:
        enter_run("bbbb")
    connection.scalar("SELECT COUNT(*) FROM runs")


def test_what_is_read_while_the_file_changes_is_refused(path):
    with open_for_reading(str(path), "view") as store:
        with pytest.raises(ChangedStoreError, match="was changed while it was read"), store.connect() as connection:
            enter_one_run(path, connection)

        assert store.scalar("SELECT COUNT(*) FROM runs") == 2


def test_no_mixture_is_read_while_sessions_begin_and_end(path):
    program = """if 1:
        import sqlite3, sys, time
        for number in range(40):
            # Now and then long enough for a reader to begin and to end.
            time.sleep(0.2 * (number % 10 == 9))
            connection = sqlite3.connect(sys.argv[1], isolation_level=None)
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE samples SET metadata = ?", [str(number) * 20_000])
            connection.execute("COMMIT")
            connection.close()
    """
    process = subprocess.Popen([sys.executable, "-c", program, str(path)])
    reads = 0
    with open_for_reading(str(path), "view") as store:
        while process.poll() is None:
            with contextlib.suppress(ChangedStoreError):
                assert len(set(store.scalars("SELECT metadata FROM samples"))) == 1
                reads += 1
    assert process.returncode == 0
    assert reads


def test_threads_read_at_once(path):
    counts = []
    with open_for_reading(str(path), "view") as store, writer(path) as enter_run:
        enter_run("bbbb")
        threads = [
            threading.Thread(target=lambda: counts.extend(store.scalar("SELECT COUNT(*) FROM runs") for _ in range(20)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert counts == [2] * 160


def test_queries_of_a_thread_share_a_connection_and_those_of_others_have_their_own(path):
    others = []

    def look():
        with store.connect() as connection:
            others.append(connection)

    with open_for_reading(str(path), "view") as store:
        with store.one_connection(), store.connect() as first, store.connect() as second:
            other = threading.Thread(target=look)
            other.start()
            other.join()
            assert store.scalar("SELECT count(*) FROM runs") == 1
        look()

    assert first is second
    assert first not in others
    assert len(others) == 2


def test_a_shared_connection_ends_with_an_error(path):
    with open_for_reading(str(path), "view") as store:
        with pytest.raises(StoreError, match="no such table: none"), store.one_connection():
            store.scalar("SELECT 1 FROM none")

        assert store.scalar("SELECT count(*) FROM runs") == 1


def test_nothing_can_be_written(path):
    with (
        open_for_reading(str(path), "view") as store,
        pytest.raises(StoreError, match="is read-only: make it writable"),
    ):
        store.end_run("aaaa", finished="never", status="running")


def test_replies_that_wait_in_files_are_left_there(path):
    with contextlib.closing(RunStore(str(path))) as store:
        file = write_spill_file(str(path), store.key, "aaaa", [])
    assert file is not None

    read_ids(path)

    assert waiting_rows(str(path)) == [file]


def test_a_report_reads_the_store_that_is_open_for_reading(path):
    with open_for_reading(str(path), "view") as store:
        run = load_run(store, "aaaa")
        with store_of(run) as again:
            assert again is store
    with store_of(run) as writable:
        writable.set_exit_status("aaaa", 0)


@pytest.mark.parametrize("named", ["{path}", "sqlite:///{path}", "sqlite:///file:{path}?mode=rw", "link.db"])
def test_a_path_a_url_and_a_link_name_the_same_file(path, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.db").symlink_to(path)
    before = files_of(path)

    assert read_ids(named.format(path=path)) == ["aaaa"]
    assert files_of(path) == before


def refusal(location):
    with pytest.raises((SpecError, StoreError)) as raised, open_for_reading(str(location), "view"):
        pass
    return str(raised.value)


def test_a_missing_store_is_not_created(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert refusal(".crucible/crucible.db") == (
        ".crucible/crucible.db does not exist: run pytest with an experiment first, or name a store with --store"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_an_older_format_is_left_as_it_is(tmp_path):
    old = tmp_path / "old.db"
    old.write_bytes(gzip.decompress(FORMAT_3.read_bytes()))
    before = files_of(old)

    assert refusal(old) == ('this store has format 3, and view changes nothing: run "crucible runs" once to upgrade it')
    assert files_of(old) == before


@pytest.mark.parametrize(
    ("environment", "remedy"),
    [
        (
            '{"packages": {"pytest-crucible": "9.1"}}',
            'it needs pytest-crucible 9.1: pip install "pytest-crucible>=9.1"',
        ),
        ("[]", "it needs a newer pytest-crucible: pip install --upgrade pytest-crucible"),
    ],
)
def test_a_store_of_a_newer_format_names_the_version_that_is_needed(path, environment, remedy):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE store_format SET version = 99")
        connection.execute("UPDATE runs SET environment = ?", [environment])

    assert refusal(path) == f"this store has format 99, and this version reads {FORMAT}: {remedy}"


def test_a_store_that_a_newer_version_upgrades_meanwhile_is_read_no_more(path):
    with open_for_reading(str(path), "view") as store:
        assert store.scalar("SELECT COUNT(*) FROM runs") >= 0
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE store_format SET version = 99")

        with pytest.raises(StoreError, match="this store has format 99"):
            store.scalar("SELECT COUNT(*) FROM runs")


def test_a_store_that_lacks_the_tables_of_a_feature_is_not_changed(path):
    from pytest_crucible.store import schema

    table = min(table.name for table in schema.feature_tables())
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DROP TABLE {table}")

    assert refusal(path) == (
        f"this store lacks the table '{table}', and view changes nothing: run \"crucible runs\" once to upgrade it"
    )


def test_files_of_other_kinds_are_refused(tmp_path):
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text("something else " * 100)
    with contextlib.closing(sqlite3.connect(tmp_path / "songs.db")) as connection, connection:
        connection.execute("CREATE TABLE songs (title)")
    before = files_of(tmp_path / "empty.db")

    assert refusal(tmp_path / "empty.db").endswith("empty.db has no runs yet: run pytest with an experiment first, "
                                                   "or name a store with --store")  # fmt: skip
    assert "is not a run store (another kind of file, or corrupt)" in refusal(tmp_path / "text.db")
    assert "it is a database with other tables ('songs')" in refusal(tmp_path / "songs.db")
    assert refusal(tmp_path).endswith(
        "is not a file: run pytest with an experiment first, or name a store with --store"
    )
    assert "is not a database that can be reached" in refusal("nosuch://host/name")
    assert files_of(tmp_path / "empty.db") == before


def test_a_log_without_its_index_is_not_overlooked(path):
    with writer(path) as enter_run:
        enter_run("bbbb")
        enter_run.process.send_signal(signal.SIGKILL)
        enter_run.process.wait()
        enter_run.process.stdin.close()
    path.with_name("runs.db-shm").unlink()
    before = files_of(path)

    assert refusal(path) == (
        "runs.db-wal has commits that are not in runs.db, and cannot be read without runs.db-shm: "
        'run "crucible runs" once where the folder can be written'
    )
    assert files_of(path) == before


IMPORTS = """
from pytest_crucible.records.errors import StoreError
from pytest_crucible.runs.run_store import open_for_reading
from pytest_crucible.store.runs import RunStore
RunStore({path!r}, reader="view").close()
"""
READ = """
with open_for_reading({path!r}, "view") as store:
    print(store.scalar("SELECT COUNT(*) FROM runs"))
"""


@OTHER
@pytest.mark.parametrize("is_killed", [False, True])
def test_another_user_reads_a_folder_and_files_that_only_root_writes(path, is_killed):
    if is_killed:
        with writer(path) as enter_run:
            enter_run("bbbb")
            enter_run.process.send_signal(signal.SIGKILL)
            enter_run.process.wait()
            enter_run.process.stdin.close()
    for file in path.parent.iterdir():
        file.chmod(0o444)
    path.parent.chmod(0o555)
    before = files_of(path)

    assert (
        int(run_as_other_user(READ.format(path=str(path)), path.parent, IMPORTS.format(path=str(path))))
        == 1 + is_killed
    )
    assert files_of(path) == before


@OTHER
def test_another_user_sees_the_commits_of_a_running_session(path):
    path.parent.chmod(0o755)
    with writer(path) as enter_run:
        enter_run("bbbb")
        for file in path.parent.iterdir():
            file.chmod(0o644)

        assert int(run_as_other_user(READ.format(path=str(path)), path.parent, IMPORTS.format(path=str(path)))) == 2


@OTHER
def test_a_file_that_may_not_be_read_is_named(path):
    path.chmod(0o600)
    code = f"""
try:
    with open_for_reading({str(path)!r}, "view"):
        pass
except StoreError as error:
    print(error)
"""

    assert "cannot be read: check that you may read it" in run_as_other_user(
        code, path.parent, IMPORTS.format(path=str(path))
    )


def test_a_role_that_may_only_select_reads_a_server_s_store(postgresql):
    import psycopg

    with contextlib.closing(RunStore(postgresql)) as store:
        store_run(store, "aaaa", SAMPLES, v2=[True] * 8, v1=[True, False] * 4)
        store.end_run("aaaa", finished="2026-01-02", status="finished")
    with psycopg.connect(postgresql, autocommit=True) as server:
        server.execute("DROP ROLE IF EXISTS reader")
        server.execute("CREATE ROLE reader LOGIN")
        server.execute("GRANT USAGE ON SCHEMA public TO reader")
        server.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    location = postgresql.replace("crucible@", "reader@")

    with open_for_reading(location, "view") as store:
        run = load_run(store, "aaaa")
        assert "aaaa" in html_report(run)
        with pytest.raises(StoreError, match="read-only"):
            store.end_run("aaaa", finished="never", status="running")
    with psycopg.connect(postgresql, autocommit=True) as server:
        server.execute("DROP OWNED BY reader")
        server.execute("DROP ROLE reader")


def test_the_error_for_a_role_without_rights_names_what_to_grant(postgresql):
    import psycopg

    RunStore(postgresql).close()
    with psycopg.connect(postgresql, autocommit=True) as server:
        server.execute("CREATE ROLE stranger LOGIN")
        server.execute("GRANT USAGE ON SCHEMA public TO stranger")
    try:
        assert "refuses this user some of its tables: grant SELECT on all of them" in refusal(
            postgresql.replace("crucible@", "stranger@")
        )
    finally:
        with psycopg.connect(postgresql, autocommit=True) as server:
            server.execute("DROP OWNED BY stranger")
            server.execute("DROP ROLE stranger")


def test_a_user_who_could_write_does_not(postgresql):
    RunStore(postgresql).close()

    with (
        open_for_reading(postgresql, "view") as store,
        pytest.raises(StoreError, match="read-only"),
    ):
        store.execute("DELETE FROM runs")
