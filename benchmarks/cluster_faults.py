"""Faults in the midst of runs on a Ray cluster of three machines, which are network namespaces of this one.

    python -m benchmarks.cluster_faults                 # each fault five times: about half an hour
    python -m benchmarks.cluster_faults worker,head 20  # two of them, 20 times

A run has 2,400 samples of 300 ms (with `head` 19,200), 32 at a time on each node. *Lost* and *doubled* are samples
that the finished run, or the resumed one, lacks or has twice. *Requested twice* is the most that one run sent again;
its limit are the blocks that one worker holds, and those of all workers where the driver or the head ends. *Longest
wait* is from the fault to the first request of the last block that was dealt again, or to the end of the session that
ends. Needs root, `ip`, and Debian's libfaketime; the exit status is 1 when something is over its limit.
"""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tabulate import tabulate

# The tests import each other by the names that pytest gives them.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from cluster_runs import ENVIRONMENT, HELD, ClusterRun, serve
from clusters import start_cluster

NODES, SAMPLES, LONG, TIMES = 3, 2_400, 19_200, 5
AHEAD_S = 300
CUT_S = 60.0
END_S = 400.0


@dataclass(frozen=True)
class Result:
    """The effects of one fault."""

    lost: int
    doubled: int
    twice: int
    wait_s: float = 0.0
    problem: str = ""
    """The end of the output of a session that ended otherwise than it should; else empty."""


@dataclass(frozen=True)
class Fault:
    """A fault, and how many samples may be requested twice."""

    inject: Callable[[ClusterRun, random.Random], Result]
    most_twice: int = HELD
    most_wait_s: float = 15.0
    samples: int = SAMPLES
    ahead_s: float = 0


def kill_worker(run: ClusterRun, draws: random.Random) -> Result:
    """Kill the process of a worker on a machine."""
    return _survive(run, draws, lambda: draws.choice(run.cluster.machines).kill("ray::SuiteWorker"))


def kill_raylet(run: ClusterRun, draws: random.Random) -> Result:
    """Kill Ray's process on a machine, and start it again after the run."""
    machine = draws.choice(run.cluster.machines[1:])
    result = _survive(run, draws, lambda: machine.kill("raylet/raylet"))
    machine.kill()
    run.cluster.start_node(machine)
    return result


def cut_link(run: ClusterRun, draws: random.Random) -> Result:
    """Cut a machine off for a minute; the run ends without it, or goes on with it."""
    machine = draws.choice(run.cluster.machines[1:])
    result = _survive(run, draws, lambda: run.cluster.cut(machine))
    time.sleep(max(0.0, CUT_S - result.wait_s))
    run.cluster.join(machine)
    machine.kill()
    run.cluster.start_node(machine)
    return result


def kill_driver(run: ClusterRun, draws: random.Random) -> Result:
    """Kill the session, and resume it."""
    return _resume(run, draws, lambda driver: driver.kill(), status=-signal.SIGKILL)


def interrupt(run: ClusterRun, draws: random.Random) -> Result:
    """Press Ctrl-C, and resume the session."""
    return _resume(run, draws, lambda driver: driver.send_signal(signal.SIGINT), status=2)


def kill_head(run: ClusterRun, draws: random.Random) -> Result:
    """Kill the head's store of the cluster, and resume the session on a cluster that was started again."""
    before = run.count_requests()
    driver = _start(run, draws)
    run.cluster.machines[0].kill("gcs_server")
    killed = time.monotonic()
    output = driver.communicate(timeout=END_S)[0]
    wait, first = time.monotonic() - killed, run.count_requests() - before
    is_clear = driver.returncode == 1 and "--crucible-resume" in output and "Traceback" not in output
    for machine in run.cluster.machines:
        machine.kill()
    run.cluster.start_nodes()
    with serve(run.cluster):
        result = _finish(run, run.start_driver("--crucible-resume"), before=-first)
    return replace(
        result, wait_s=wait, problem=result.problem if is_clear else f"exit {driver.returncode}: {output[-2000:]}"
    )


def keep_clocks_apart(run: ClusterRun, draws: random.Random) -> Result:
    """Run with a machine whose clock is five minutes ahead."""
    return _survive(run, draws, lambda: None)


FAULTS = {
    "worker": Fault(kill_worker),
    "raylet": Fault(kill_raylet),
    "link": Fault(cut_link),
    "driver": Fault(kill_driver, NODES * HELD),
    "ctrl-c": Fault(interrupt, NODES * HELD),
    # Half a minute in which the head may be started again, and the end of the session.
    "head": Fault(kill_head, NODES * HELD, 45.0, LONG),
    "clocks": Fault(keep_clocks_apart, 0, ahead_s=AHEAD_S),
}


def _start(run: ClusterRun, draws: random.Random) -> subprocess.Popen[str]:
    """Start a session, and return it at a random moment while all workers send."""
    for path in run.folder.glob("run.db*"):
        path.unlink()
    driver = run.start_driver()
    run.wait_for_blocks()
    time.sleep(draws.uniform(0.0, 2.0))
    return driver


def _survive(run: ClusterRun, draws: random.Random, inject: Callable[[], object]) -> Result:
    before, driver = run.count_requests(), _start(run, draws)
    at = time.time()
    inject()
    result = _finish(run, driver, before=before)
    waits = run.read_row(_WAIT)[0]
    return replace(result, wait_s=max(0.0, (waits or at) - at))


def _resume(
    run: ClusterRun, draws: random.Random, end: Callable[[subprocess.Popen[str]], object], *, status: int
) -> Result:
    before, driver = run.count_requests(), _start(run, draws)
    end(driver)
    at = time.monotonic()
    output = driver.communicate(timeout=END_S)[0]
    wait = time.monotonic() - at
    result = replace(_finish(run, run.start_driver("--crucible-resume"), before=before), wait_s=wait)
    is_clear = driver.returncode == status and "Traceback" not in output
    return result if is_clear else replace(result, problem=f"exit {driver.returncode}: {output[-2000:]}")


def _finish(run: ClusterRun, driver: subprocess.Popen[str], *, before: int) -> Result:
    """Wait for the end of a session that has to pass."""
    output = driver.communicate(timeout=END_S)[0]
    replies, samples = run.count_replies()
    twice = max(0, run.count_requests() - before - run.samples)
    problem = "" if driver.returncode == 0 else f"exit {driver.returncode}: {output[-2000:]}"
    return Result(run.samples - samples, replies - samples, twice, problem=problem)


_WAIT = """
SELECT MAX(first) FROM (
    SELECT MIN(events.at - COALESCE(events.seconds, 0)) AS first
    FROM blocks, json_each(blocks.positions) AS position
    JOIN events ON events.sample = 's' || position.value AND events.name = 'request.stop'
    WHERE blocks.dealt > 1 GROUP BY blocks.number
)
"""
"""The time of the first request of the last block that was dealt again."""


@contextlib.contextmanager
def _cluster(samples: int, ahead_s: float) -> Iterator[ClusterRun]:
    """Yield a run of a suite on a new cluster with a server; the clock of the last machine may be ahead."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_cluster(NODES, environment=ENVIRONMENT, ahead_s=ahead_s) as cluster,
        serve(cluster),
    ):
        run = ClusterRun(cluster, Path(folder), samples)
        run.write_suite()
        yield run


def measure(names: Sequence[str], times: int) -> Iterator[tuple[str, list[Result]]]:
    """Yield the results of each fault, so many times."""
    for ahead_s, samples in ((0, SAMPLES), (AHEAD_S, SAMPLES), (0, LONG)):
        alike = [name for name in names if (FAULTS[name].ahead_s, FAULTS[name].samples) == (ahead_s, samples)]
        with contextlib.ExitStack() as stack:
            run = stack.enter_context(_cluster(samples, ahead_s)) if alike else None
            for name in alike:
                results: list[Result] = []
                for number in range(times):
                    if name == "head" and number:
                        # The server ended with the head's machine.
                        stack.close()
                        run = stack.enter_context(_cluster(samples, ahead_s))
                    results.append(FAULTS[name].inject(run, random.Random(f"{name} {number}")))
                    print(f"{name} {number + 1}: {results[-1]}", file=sys.stderr, flush=True)
                yield name, results


def main(name: str = "", times: str = str(TIMES)) -> int:
    """Print a row for each fault, and return 1 when something is over its limit."""
    rows, is_over = [], False
    for each, results in measure(name.split(",") if name else list(FAULTS), int(times)):
        fault = FAULTS[each]
        lost, doubled = sum(result.lost for result in results), sum(result.doubled for result in results)
        twice, wait = max(result.twice for result in results), max(result.wait_s for result in results)
        ended = sum(not result.problem for result in results)
        is_over |= bool(lost or doubled or twice > fault.most_twice or wait > fault.most_wait_s or ended < len(results))
        limits = f"{twice} of {fault.most_twice}", f"{wait:.1f} of {fault.most_wait_s:.0f} s"
        rows.append((each, len(results), ended, lost, doubled, *limits))
    headers = ("fault", "runs", "ended as they should", "lost", "doubled", "requested twice", "longest wait")
    print(tabulate(rows, headers=headers, tablefmt="github"))
    return int(is_over)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
