"""Many processes promote at once, and processes are killed in a transition, on an SQLite file and a PostgreSQL server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from registry_builders import measure, register, request, states

from pytest_crucible.features.registry.promote import promote_run
from pytest_crucible.features.registry.store import changed_versions, load_registry
from pytest_crucible.store.runs import RunStore

pytestmark = pytest.mark.slow

PROCESSES = 64
KILLS = 12
TESTS = Path(__file__).parent.parent


@pytest.fixture
def store(location: str) -> Iterator[RunStore]:
    opened = RunStore(location)
    register(opened, "v1", *(f"w{k}" for k in range(8)))
    promote_run(opened, request(measure(opened, "first", v1=0.85)))
    yield opened
    opened.close()


def run_apart(*arguments: str) -> list[str]:
    """The lines of `registry_process.py`."""
    command = [sys.executable, str(TESTS / "registry_process.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_of_64_processes_that_promote_at_once_one_wins(location, store):
    """Eight of them promote each of eight versions, all compared with the one in production."""
    runs = [measure(store, f"run{k}", **{f"w{k}": 0.9, "v1": 0.85}) for k in range(8)]
    lines = run_apart("race", str(PROCESSES), location, *runs)

    assert Counter(line == "won" for line in lines) == {True: 1, False: PROCESSES - 1}
    assert all(line == "won" or "in production" in line for line in lines), lines
    assert Counter(states(store).values()) == {"retired": 1, "production": 1, "draft": 7}
    assert [entry.state for entry in load_registry(store).entries[-2:]] == ["retired", "production"]


def test_a_process_that_is_killed_in_a_transition_leaves_the_old_state_or_the_new_one(location, store):
    """Two versions displace each other, by processes that are killed at some moment."""
    for name, other in (("v1", "w0"), ("w0", "v1")):
        measure(store, f"{name} again", **{name: 0.9, other: 0.9})
    before = len(load_registry(store).entries)
    run_apart("kill", str(KILLS), location, "w0 again", "v1 again")

    registry = load_registry(store)
    assert changed_versions(store, registry) == []
    assert Counter(states(store).values())["production"] == 1
    # Each promotion is two rows: the version before is retired.
    assert len(registry.entries) >= before + KILLS
    assert (len(registry.entries) - before) % 2 == 0
