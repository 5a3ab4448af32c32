"""Races in the model registry: this process imports everything once, and forks those that take part.

python registry_process.py race PROCESSES LOCATION RUN ...    all promote at once; prints what each of them got
python registry_process.py kill KILLS LOCATION RUN ...        each promotes the runs in turn, until it is killed
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from registry_builders import request

from pytest_crucible.features.registry.evidence import load_proof
from pytest_crucible.features.registry.promote import promote_run
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.store.runs import RunStore

FORK = multiprocessing.get_context("fork")


def promote(store: RunStore, run: str) -> str:
    try:
        promote_run(store, request(run))
    except CrucibleError as error:
        return str(error)
    return "won"


def import_everything(location: str, run: str) -> None:
    """Import what a promotion imports when it first needs it, so that the forked processes need not."""
    store = RunStore(location)
    load_proof(store, run, alpha=0.05)
    store.close()


def race(processes: int, location: str, runs: Sequence[str]) -> None:
    """Promote from many processes, which all wait until the last of them is there."""
    import_everything(location, runs[0])
    barrier, results = FORK.Barrier(processes), FORK.Queue()
    started = [
        FORK.Process(target=_take_part, args=(location, runs[k % len(runs)], barrier, results))
        for k in range(processes)
    ]
    for process in started:
        process.start()
    for _ in started:
        print(results.get(timeout=300), flush=True)


def _take_part(location: str, run: str, barrier: Any, results: Any) -> None:
    store = RunStore(location)
    barrier.wait()
    results.put(promote(store, run))
    store.close()


def kill(kills: int, location: str, runs: Sequence[str]) -> None:
    """Kill a process that promotes without end, each time a little later."""
    import_everything(location, runs[0])
    for number in range(kills):
        # On a busy machine the first promotion may take seconds.
        has_promoted = FORK.Event()
        process = FORK.Process(target=_promote_in_turn, args=(location, runs, has_promoted))
        process.start()
        assert has_promoted.wait(timeout=60)
        time.sleep(0.011 * number)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()


def _promote_in_turn(location: str, runs: Sequence[str], has_promoted: Any) -> None:
    store = RunStore(location)
    for run in itertools.cycle(runs):
        if promote(store, run) == "won":
            has_promoted.set()


if __name__ == "__main__":
    what, number, location, *runs = sys.argv[1:]
    {"race": race, "kill": kill}[what](int(number), location, runs)
