"""Waiting for the winner of a sweep that another worker of pytest-xdist chooses, through the run store.

The worker that chooses gives signs of life. If these stop, or it reports a failure, the waiting workers go on without a winner.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.records.errors import CrucibleError, StoreError
from pytest_crucible.store.decisions import add_decision, decision_subjects, load_decisions, set_decision
from pytest_crucible.store.runs import RunStore

# A winner is known within this time on every worker; a query of the run store takes a millisecond.
POLL_S = 0.2
# The interval of signs of life: many fit into SILENT_S, so that a few late ones do no harm.
BEAT_S = 2.0
# A worker whose machine sleeps, or swaps, is late; one that has died stays away.
SILENT_S = 60.0
_CHOICE = "choice of "


class NoWinner(CrucibleError):
    """No winner will come: the worker that chooses has failed or died."""


def subject_of_life(family: str) -> str:
    """Return the subject of the signs of life of the worker that chooses."""
    return f"{_CHOICE}{family}"


@contextlib.contextmanager
def signs_of_life(store: RunStore, run: str, family: str, worker: str) -> Iterator[None]:
    """Give signs of life within the block, from a thread of its own: fixtures and models may take long."""
    subject, ended = subject_of_life(family), threading.Event()
    add_decision(store, run, subject, 0, {"worker": worker, "beat": 0})

    def beat() -> None:
        number = 0
        while not ended.wait(BEAT_S):
            number += 1
            # A store that fails ends the session elsewhere, with its reason.
            with contextlib.suppress(StoreError):
                set_decision(store, run, subject, 0, {"worker": worker, "beat": number})

    thread = threading.Thread(target=beat, name="crucible-sweep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def report_failure(store: RunStore, run: str, family: str, reason: str) -> None:
    """Report to the waiting workers that there will be no winner."""
    add_decision(store, run, subject_of_life(family), 1, {"failed": reason})


def report_lost_worker(store: RunStore, run: str, worker: str) -> None:
    """Report the error of a worker that has died, if it was one that chose."""
    for subject in decision_subjects(store, run, _CHOICE):
        if load_decisions(store, run, subject).get(0, {}).get("worker") == worker:
            family = subject.removeprefix(_CHOICE)
            report_failure(store, run, family, f"worker {worker}, which chose it, has ended")


def wait_for_winner(
    store: RunStore,
    run: str,
    family: str,
    find: Callable[[], OpenedArm | None],
    check_interrupt: Callable[[], None],
) -> OpenedArm:
    """Return the winner, as soon as `find` returns one. Raises NoWinner, and what `check_interrupt` raises."""
    last, heard = None, time.monotonic()
    while True:
        winner = find()
        if winner is not None:
            return winner
        life = load_decisions(store, run, subject_of_life(family))
        if 1 in life:
            raise NoWinner(f"the sweep of {family!r} has no winner: {life[1]['failed']}")
        last, heard = _heard(life.get(0), last, heard)
        if time.monotonic() - heard > SILENT_S:
            raise NoWinner(
                f"the sweep of {family!r} has no winner: the worker that chooses has not reported for {SILENT_S:g} s"
            )
        check_interrupt()
        time.sleep(POLL_S)


def _heard(
    life: Mapping[str, Any] | None, last: Mapping[str, Any] | None, heard: float
) -> tuple[Mapping[str, Any] | None, float]:
    """Return the latest sign of life, and when it was first seen."""
    return (last, heard) if life == last else (life, time.monotonic())
