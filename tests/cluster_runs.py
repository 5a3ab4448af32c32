"""Runs of a small suite on a cluster of several machines, whose server counts requests: for faults in the midst of them."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters import PYTHON, Cluster, python_path

ROOT = Path(__file__).parents[1]
SERVER_PORT, LATENCY_S, CONCURRENCY = 8123, 0.3, 32
HELD = 3 * 64
"""Samples that one worker holds at most: the window of its blocks."""
ENVIRONMENT = python_path(ROOT, [str(ROOT / "tests")])
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="sums.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.90")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""


@dataclass(frozen=True)
class ClusterRun:
    """A suite in a folder, whose samples are sent by the workers of a cluster to a server on the first machine."""

    cluster: Cluster
    folder: Path
    samples: int

    def write_suite(self) -> None:
        """Write the test, its samples, and the adapter."""
        rows = [{"id": f"s{k}", "input": f"{k}", "expected": f"{k}"} for k in range(self.samples)]
        (self.folder / "sums.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        url = f"http://{self.cluster.machines[0].address}:{SERVER_PORT}/v1"
        (self.folder / "crucible.toml").write_text(
            f'[adapters.v2]\nbackend = "openai"\nbase_url = "{url}"\nmodel = "m"\n'
        )
        (self.folder / "pytest.ini").write_text("[pytest]\n")
        (self.folder / "test_sums.py").write_text(textwrap.dedent(TEST))

    def start_driver(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a session on the first machine."""
        options = ("-q", "-p", "no:cacheprovider", "--crucible-adapter=v2", "--crucible-store=run.db")
        place = f"--crucible-executor=auto?concurrency={CONCURRENCY}"
        return self.cluster.popen(
            self.cluster.machines[0], "-m", "pytest", *options, place, *arguments, cwd=self.folder
        )

    def wait_for_blocks(self) -> None:
        """Wait until the worker of each machine has sent a block of the last run."""
        until = time.monotonic() + 200
        query = f"SELECT COUNT(DISTINCT node) FROM blocks WHERE {LAST}"
        while time.monotonic() < until:
            time.sleep(0.1)
            with contextlib.suppress(sqlite3.OperationalError):
                if self.read_row(query) == (len(self.cluster.machines),):
                    return
        raise TimeoutError("the workers have sent nothing")

    def read_row(self, query: str) -> tuple[Any, ...]:
        """Return the first row of a query of the run store."""
        connection = sqlite3.connect(f"file:{self.folder / 'run.db'}?mode=ro", uri=True)
        try:
            return tuple(connection.execute(query).fetchone())
        finally:
            connection.close()

    def count_replies(self) -> tuple[int, int]:
        """Return how many replies the last run has, and of how many samples."""
        rows, samples = self.read_row(
            "SELECT COUNT(*), COUNT(DISTINCT position) FROM replies WHERE arm = (SELECT MAX(arm) FROM replies)"
        )
        return int(rows), int(samples)

    def count_requests(self) -> int:
        """Return how many requests the server has received."""
        url = f"http://127.0.0.1:{SERVER_PORT}/control"
        code = f"import urllib.request; print(urllib.request.urlopen({url!r}).read().decode())"
        answer = self.cluster.popen(self.cluster.machines[0], "-S", "-c", code, cwd=ROOT).communicate()[0]
        return int(json.loads(answer)["requests"])


LAST = "experiment = (SELECT MAX(experiment) FROM blocks)"


@contextlib.contextmanager
def serve(cluster: Cluster, latency_s: float = LATENCY_S) -> Iterator[None]:
    """Run an OpenAI-shaped server on the first machine."""
    behaviour = json.dumps({"latency_s": latency_s})
    arguments = ("-m", "openai_server", "--host", "0.0.0.0", "--port", str(SERVER_PORT), "--behaviour", behaviour)
    command = cluster.machines[0].command(PYTHON, *arguments)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=cluster.variables(), **pipes) as server:
        assert server.stdout is not None
        server.stdout.readline()
        yield
        server.kill()
