"""A private PostgreSQL server for tests and benchmarks: a new cluster on a free port of this machine, gone afterwards."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

UNPRIVILEGED = ("postgres", "nobody")
"""Who runs it where this process is root's: PostgreSQL refuses to be."""
WAIT_S = 60


@functools.cache
def missing() -> str:
    """Why there can be no server here; empty where there can."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    if _binaries() is None:
        return "PostgreSQL's server is not installed"
    if os.geteuid() == 0 and _user() is None:
        return "root may not run PostgreSQL, and there is no user postgres or nobody"
    return ""


@contextlib.contextmanager
def server(*settings: str) -> Iterator[str]:
    """The URL of an empty database; `settings` are those of postgresql.conf, such as `fsync=off`."""
    with tempfile.TemporaryDirectory(prefix="crucible-pg-") as room:
        folder, port = Path(room), _free_port()
        if (user := _user()) is not None:
            shutil.chown(folder, user)
        _run("initdb", "-D", room + "/data", "-A", "trust", "-U", "crucible", "-E", "UTF8", "--locale=C", "--no-sync")
        own = (f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={room}")
        options = " ".join(f"-c {one}" for one in (*own, *settings))
        _run("pg_ctl", "-D", room + "/data", "-l", room + "/log", "-o", options, "-w", "start")
        try:
            yield f"postgresql+psycopg://crucible@127.0.0.1:{port}/postgres"
        finally:
            _run("pg_ctl", "-D", room + "/data", "-m", "immediate", "-w", "stop")


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
    """On the path, or where Debian has them."""
    found = shutil.which("pg_ctl")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((one for one in places if (one / "initdb").exists()), None)


def _user() -> str | None:
    """Whom to become; None for who we are."""
    if os.geteuid() != 0:
        return None
    known = {one.pw_name for one in pwd.getpwall()}
    return next((name for name in UNPRIVILEGED if name in known), None)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port
