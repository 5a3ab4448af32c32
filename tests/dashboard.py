"""Dashboards of a run store for tests: a client that has the cookie, and a served one for browsers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from pytest_crucible.features.view.application import make_application
from pytest_crucible.features.view.labelling import open_labelling
from pytest_crucible.features.view.server.server import make_server, open_socket
from pytest_crucible.features.view.site import Site
from pytest_crucible.runs.run_store import open_for_reading


@contextlib.contextmanager
def dashboard_client(store: str | Path, labels: Path | None = None) -> Iterator[TestClient]:
    """Yield a client of the dashboard of a store, which may read everything; with a file, it labels the latest run."""
    with open_for_reading(str(store), "view") as opened:
        site = Site(opened, labelling=labels and open_labelling(opened, opened.find_run(), labels, labeler="anna"))
        client = TestClient(make_application(site), base_url="http://127.0.0.1:8765")
        client.get("/", params={"token": site.token})
        yield client


@contextlib.contextmanager
def served_dashboard(store: str | Path, labels: Path | None = None, port: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the address of a served dashboard (`http://127.0.0.1:PORT`) and its token: open `ADDRESS/?token=TOKEN` first."""
    with open_for_reading(str(store), "view") as opened, open_socket("127.0.0.1", port) as listening:
        labelling = labels and open_labelling(opened, opened.find_run(), labels, labeler="anna")
        site = Site(opened, labelling=labelling)
        server = make_server(site)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", site.token
        finally:
            server.should_exit = True
            thread.join()


@contextlib.contextmanager
def dashboard_process(
    store: str | Path, *arguments: str, **options: Any
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start `crucible view` and yield its link and the process, which is killed unless it has ended."""
    command = [sys.executable, "-m", "pytest_crucible", "view", f"--store={store}", "--port=0", *arguments]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, **options) as process:
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()
