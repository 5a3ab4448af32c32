"""What was paid for is not asked again: how many calls a rerun makes, and what it costs to find its replies.

The calls are those of real sessions. A rerun from the reply cache is a whole session less one of few samples, so that
starting is not counted. The cost of a re-used baseline is that of copying an arm within the run store, which is all that
re-use does; it is too small beside a whole session to be seen there.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import COMPARED, Suite
from pytest_crucible.store.reused_outcomes import copy_outcomes
from pytest_crucible.store.runs import RunStore

SAMPLES, FEW = 10_000, 100
REPEATS = 5
ALONE = "--crucible-adapter=v2"


def figures() -> list[Figure]:
    return [*_from_cache(), *_stored_baseline()]


def _from_cache() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        many, few = (_rerun(Path(directory) / str(samples), samples) for samples in (SAMPLES, FEW))
    more = {
        name: (many[name] - few[name]) / (SAMPLES - FEW) * 1e6 for name in ("asking_wall_s", "asking_cpu_s", "cpu_s")
    }
    return [
        Figure(
            name=f"rerun from the cache, n={SAMPLES:,}: calls", measured=many["calls"], unit="calls", limit=0, digits=0
        ),
        Figure(name="- all in: CPU a sample", measured=more["asking_cpu_s"], unit="us", limit=100),
        Figure(name="- all in: wall a sample", measured=more["asking_wall_s"], unit="us"),
        Figure(name="- whole pytest session: CPU a sample", measured=more["cpu_s"], unit="us"),
    ]


def _rerun(directory: Path, samples: int) -> dict[str, float]:
    """The least of each figure over several reruns of a suite that was run once."""
    suite = Suite(directory=directory, samples=samples, is_cached=True).write()
    assert suite.run(ALONE)["calls"] == samples
    runs = [suite.run(ALONE) for _ in range(REPEATS)]
    return {name: min(run[name] for run in runs) for name in runs[0]} | {"calls": max(run["calls"] for run in runs)}


def _stored_baseline() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        suite = Suite(directory=Path(directory), samples=SAMPLES, marks=COMPARED).write()
        first = suite.run("--crucible-adapter=v1")
        again = suite.run("--crucible-adapter=v2", "--compare=v1")
        copying_s = _copying(RunStore(str(suite.store)))
    assert first["calls"] == SAMPLES
    calls = again["calls"] - SAMPLES  # the candidate's own
    name = f"rerun, n={SAMPLES:,}: calls to a stored baseline"
    return [
        Figure(name=name, measured=calls, unit="calls", limit=0, digits=0),
        Figure(name="- CPU a re-used answer", measured=copying_s / SAMPLES * 1e6, unit="us"),
    ]


def _copying(store: RunStore) -> float:
    """The least CPU seconds in which the first arm of a store is copied to another arm."""
    seconds = []
    for number in range(REPEATS):
        target = store.add_arm(1, 10 + number, f"copy-{number}", f"copy-{number}")
        before = time.process_time()
        done = copy_outcomes(store, 1, target, source_run="first", repeats=1)
        seconds.append(time.process_time() - before)
        assert len(done) == SAMPLES
    store.close()
    return min(seconds)


if __name__ == "__main__":
    raise SystemExit(show(figures()))
