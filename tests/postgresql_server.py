"""A private PostgreSQL server for tests and benchmarks: a new cluster on a free port of this machine, gone afterwards."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

UNPRIVILEGED = ("postgres", "nobody")
"""Who runs it where this process is root's: PostgreSQL refuses to be."""
WAIT_S = 60


@functools.cache
def missing() -> str:
    """Return why no server can run here; empty where one can."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    if _binaries() is None:
        return "PostgreSQL's server is not installed"
    if os.geteuid() == 0 and _user() is None:
        return "root may not run PostgreSQL, and there is no unprivileged user"
    return ""


@dataclass(frozen=True)
class Server:
    """One cluster in a folder."""

    folder: Path
    port: int
    settings: tuple[str, ...]

    @property
    def url(self) -> str:
        return f"postgresql://crucible@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        own = (f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories=")
        options = " ".join(f"-c {entry}" for entry in (*own, *self.settings))
        _run("pg_ctl", "-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-o", options, "-w", "start")

    def kill(self) -> None:
        """All its processes at once, as when a machine goes down."""
        note = self.folder / "data" / "postmaster.pid"
        number = note.read_text().split()[0]
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        for database in (number, *children):
            os.kill(int(database), signal.SIGKILL)
        note.unlink()  # who is dead and not yet buried looks as if it ran

    def stop(self) -> None:
        _run("pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "-w", "stop")


@contextlib.contextmanager
def server(*settings: str, parent: Path | None = None) -> Iterator[Server]:
    """A server with an empty database in a new folder of `parent`; `settings` as in postgresql.conf, such as `fsync=off`."""
    from tests.quiet_ports import find_quiet_port

    with tempfile.TemporaryDirectory(prefix="crucible-pg-", dir=parent) as room:
        folder, port = Path(room), find_quiet_port()
        if (user := _user()) is not None:
            shutil.chown(folder, user)
        _run("initdb", "-D", room + "/data", "-A", "trust", "-U", "crucible", "-E", "UTF8", "--locale=C", "--no-sync")
        database = Server(folder, port, settings)
        database.start()
        try:
            yield database
        finally:
            database.stop()


def empty_database(url: str) -> None:
    """Drop everything in a database, and the rows that wait for it."""
    import psycopg

    _drop_waiting_rows(url)
    with psycopg.connect(url) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


STORE = "store"
COLUMNS = """
    SELECT relname, relkind, attnum, attname, attnotnull, atttypid
    FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE relnamespace = 'public'::regnamespace ORDER BY relname, attnum
"""
"""Columns of all tables and indexes, and those that were dropped."""
_columns: dict[str, list[tuple[object, ...]]] = {}
"""Of each run store that `empty_store` made."""


def empty_store(server_url: str) -> str:
    """Return the URL of a run store without rows. It is made again only where a test has changed its tables: it takes 0.3 s."""
    import psycopg

    from pytest_crucible.store import schema
    from pytest_crucible.store.runs import RunStore

    url = f"{server_url.rpartition('/')[0]}/{STORE}"
    if url not in _columns:
        with psycopg.connect(server_url, autocommit=True) as server:
            server.execute(f"CREATE DATABASE {STORE}")
        _columns[url] = []
    _drop_waiting_rows(url)
    with psycopg.connect(url) as connection:
        same = _columns[url] and connection.execute(COLUMNS).fetchall() == _columns[url]
        if same:
            tables = [f'"{name}"' for name in schema.all_tables()]
            connection.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY")
            connection.execute("INSERT INTO store_format VALUES (%s)", [schema.FORMAT])
    if not same:
        empty_database(url)
        RunStore(url).close()
        with psycopg.connect(url) as connection:
            _columns[url] = connection.execute(COLUMNS).fetchall()
    return url


def _drop_waiting_rows(url: str) -> None:
    from pytest_crucible.store.spill_file import waiting_rows

    for path in waiting_rows(url):
        path.unlink()


def _run(program: str, *arguments: str) -> None:
    binaries = _binaries()
    assert binaries is not None
    done = subprocess.run(
        [binaries / program, *arguments],
        user=_user(), cwd="/", env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, timeout=WAIT_S,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()


@functools.cache
def _binaries() -> Path | None:
    """Return the folder of the programs: on the path, or the one of Debian."""
    path = shutil.which("pg_ctl")
    places = [Path(path).parent] if path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


def _user() -> str | None:
    """Return the user to become; None for the current one."""
    if os.geteuid() != 0:
        return None
    user_names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in UNPRIVILEGED if name in user_names), None)
