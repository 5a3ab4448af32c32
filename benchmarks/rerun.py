"""A baseline that was measured before is not asked again: how many calls it makes, and what re-using an answer costs.

The calls are those of a real session. The cost is that of copying an arm within the run store, which is all that re-use
does; it is too small beside a whole session to be seen there.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import Suite
from pytest_crucible.store.answers import copy_answers
from pytest_crucible.store.runs import RunStore

SAMPLES = 10_000
REPEATS = 5


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        suite = Suite(directory=Path(directory), samples=SAMPLES).write()
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
        done = copy_answers(store, 1, target, source_run="first", epochs=1)
        seconds.append(time.process_time() - before)
        assert len(done) == SAMPLES
    store.close()
    return min(seconds)


if __name__ == "__main__":
    raise SystemExit(show(figures()))
