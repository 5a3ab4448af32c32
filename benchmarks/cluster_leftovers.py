"""Processes, actors, temporary folders and shared memory that runs on Ray leave behind.

    python -m benchmarks.cluster_leftovers           # 20 runs that start Ray themselves, then 20 on one cluster
    python -m benchmarks.cluster_leftovers 5         # five of each

Each run has 100 samples that are answered at once, in a network namespace of its own. The last run but one of each kind is killed
with `kill -9` while it sends; its folders go when the next one starts. Needs root and `ip`.
"""

from __future__ import annotations

import glob
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

# The tests import each other by the names that pytest gives them.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from cluster_runs import ENVIRONMENT, ClusterRun, serve
from clusters import Cluster, start_cluster, start_machines

from benchmarks.figures import Figure, show

TIMES, SAMPLES = 20, 100
END_S = 20.0
"""Seconds within which the processes of a run have to end after it."""
_ACTORS = """
import ray
ray.init("auto", log_to_driver=False, logging_level="ERROR")
from ray._private.state import actors
print(sum(actor["State"] != "DEAD" for actor in actors().values()))
"""


def figures(times: int = TIMES) -> Iterator[Figure]:
    """Yield what is there after the runs, beside what was there before."""
    with start_machines(1, environment=ENVIRONMENT) as machines, serve(machines, 0.0):
        yield from _measure(machines, "ray", times)
    with start_cluster(1, environment=ENVIRONMENT) as cluster, serve(cluster, 0.0):
        yield from _measure(cluster, "auto", times)
        code = cluster.popen(cluster.machines[0], "-c", _ACTORS, cwd=Path("/tmp"))
        yield Figure(name="- actors that live", measured=float(code.communicate()[0].split()[-1]), unit="", limit=0)


def _measure(cluster: Cluster, place: str, times: int) -> Iterator[Figure]:
    before, processes = _files(), set(cluster.machines[0].processes())
    with tempfile.TemporaryDirectory() as folder:
        run = ClusterRun(cluster, Path(folder), SAMPLES)
        run.write_suite()
        for number in range(times):
            _run_once(run, place, is_killed=number == times - 2)
    until = time.monotonic() + END_S
    while (rest := set(cluster.machines[0].processes()) - processes) and time.monotonic() < until:
        time.sleep(0.2)
    commands = [Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")[:80] for process in rest]
    print(place, "left:", *sorted(_files() - before), *commands, file=sys.stderr)
    # Ray has workers in waiting, which belong to the cluster.
    own = [command for command in commands if not command.startswith("ray::IDLE")]
    yield Figure(
        name=f"{times} runs with --crucible-executor={place}: processes", measured=float(len(own)), unit="", limit=0
    )
    yield Figure(name="- files in /tmp and /dev/shm", measured=float(len(_files() - before)), unit="", limit=0)


def _run_once(run: ClusterRun, place: str, *, is_killed: bool) -> None:
    options = ("-q", "-p", "no:cacheprovider", "--crucible-adapter=v2", "--crucible-cache=off")
    driver = run.cluster.popen(
        run.cluster.machines[0], "-m", "pytest", *options, f"--crucible-executor={place}", cwd=run.folder
    )
    if is_killed:
        before = run.count_requests()
        while driver.poll() is None and run.count_requests() == before:
            time.sleep(0.1)
        os.kill(driver.pid, signal.SIGKILL)
    output = driver.communicate()[0]
    if driver.returncode not in ((-signal.SIGKILL,) if is_killed else (0,)):
        raise RuntimeError(f"exit {driver.returncode}: {output}")


def _files() -> set[str]:
    """Return the files that runs on Ray have for a while."""
    patterns = ("/tmp/crucible-*", "/tmp/ray/session_*", "/dev/shm/plasma*", "/dev/shm/ray*", "/dev/shm/sem.ray*")
    return {path for pattern in patterns for path in glob.glob(pattern)}


if __name__ == "__main__":
    raise SystemExit(show(figures(*map(int, sys.argv[1:]))))
