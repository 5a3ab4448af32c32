"""How long `crucible gc` takes to delete a run of ten million observations, beside one DELETE statement for all of them.

`python -m benchmarks.deleting 1000000` takes fewer. A peak of memory is that of a process which does nothing else.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.million import plan
from pytest_crucible.records import Sample
from pytest_crucible.store.runs import RunStore
from tests import postgresql_server

OBSERVATIONS, METRICS = 10_000_000, 4
# Two runs, of which one stays, as in a store that is in use.
RUNS = ("old", "new")
PEER = ("DELETE FROM replies WHERE arm = :arm", "DELETE FROM observations WHERE arm = :arm")
_UNITS = """
    WITH RECURSIVE units(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM units WHERE k < :last),
    metrics(m) AS (SELECT 0 UNION ALL SELECT m + 1 FROM metrics WHERE m < 3)
"""
FILL = (
    f"INSERT INTO replies (arm, position, epoch, text, latency_s, skipped) {_UNITS} SELECT :arm, k, 0, 'yes', 0.1, :no FROM units",
    f"""
    INSERT INTO observations (arm, position, epoch, metric, value, is_bool) {_UNITS}
    SELECT :arm, k, 0, 'metric ' || m, k % 7 / 7.0, :no FROM units, metrics
    """,
)
PROGRAM = """
import sys, time
from pathlib import Path
from pytest_crucible.store.prune import Prunable, clear
from pytest_crucible.store.runs import RunStore
store = RunStore(sys.argv[1])
begun = time.perf_counter()
clear(store, Prunable(runs=("old",), replies=0, before=None))
print(time.perf_counter() - begun)
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]))
"""


def figures(observations: int = OBSERVATIONS) -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        found = _figures("SQLite", f"{directory}/runs.db", f"{directory}/peer.db", observations)
    if not postgresql_server.missing():
        with postgresql_server.server() as server:
            found += _figures("PostgreSQL", server.url, "", observations)
    return found


def _figures(database: str, location: str, copy: str, observations: int) -> list[Figure]:
    _fill(location, observations)
    if copy:
        shutil.copy(location, copy)
    with _Writer(location) as writer:
        done = subprocess.run([sys.executable, "-c", PROGRAM, location], capture_output=True, text=True, check=True)
    seconds, kibibytes = map(float, done.stdout.split())
    if not copy:
        # Its numbers are free again.
        _fill(location, observations, RUNS[:1])
    peer = _seconds_of_statements(copy or location)
    what = f"gc of {observations:,} observations, {database} ({observations / seconds:,.0f}/s)"
    return [
        Figure(name=f"{what}, beside one DELETE for all ({peer:.1f} s)", measured=seconds / peer, unit="x", limit=1.5),
        Figure(name="- memory", measured=kibibytes / 1024, unit="MiB", limit=300, digits=0),
        Figure(name="- another process waits for at most", measured=writer.longest_s, unit="s", limit=5),
        Figure(name="- log of SQLite at most", measured=writer.log_bytes / 2**20, unit="MiB", limit=100, digits=0),
    ]


def _fill(location: str, observations: int, runs: tuple[str, ...] = RUNS) -> None:
    store = RunStore(location)
    for run in runs:
        store.begin_run(run, started="2026-01-01T00:00:00+00:00", seed=0, alpha=0.05, correction="holm", environment={})
        experiment = store.add_experiment(run, plan(), [Sample(id="s", input="")])
        arm = store.add_arm(experiment, 0, "v2", "v2")
        for statement in FILL:
            store.execute(statement, arm=arm, last=observations // METRICS - 1, no=False)
    with store.connect() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)" if connection.is_sqlite else "CHECKPOINT")
    store.close()


def _seconds_of_statements(location: str) -> float:
    """Seconds of what deletes the same rows without leaving others room: a statement for each table, in one transaction."""
    store = RunStore(location)
    arm = store.scalar(
        "SELECT arms.id FROM arms JOIN experiments ON experiments.id = experiment WHERE run = :run", run="old"
    )
    begun = time.perf_counter()
    with store.begin() as connection:
        for statement in PEER:
            connection.execute(statement, arm=arm)
    with store.connect() as connection:
        # As gc ends while the other run is running.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)" if connection.is_sqlite else "VACUUM")
    seconds = time.perf_counter() - begun
    store.close()
    return seconds


class _Writer:
    """Another process: it writes a row twenty times a second, and watches the log of SQLite."""

    def __init__(self, location: str) -> None:
        self.longest_s, self.log_bytes = 0.0, 0
        self._location, self._log = location, Path(f"{location}-wal")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> _Writer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _write(self) -> None:
        store = RunStore(self._location)
        while not self._ended.wait(0.05):
            begun = time.perf_counter()
            store.execute("UPDATE runs SET exit_status = 0 WHERE id = :run", run="new")
            self.longest_s = max(self.longest_s, time.perf_counter() - begun)
            self.log_bytes = max(self.log_bytes, self._log.stat().st_size if self._log.exists() else 0)
        store.close()


if __name__ == "__main__":
    raise SystemExit(show(figures(*map(int, sys.argv[1:]))))
