"""A barrier between stages for the workers of pytest-xdist: each waits, through the run store, until all have run a stage.

Workers wait only after pytest has run their items. Within an item they would wait for a test that xdist starts only when
theirs has ended.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from pytest_crucible.store.decisions import add_decision, load_decisions
from pytest_crucible.store.runs import RunStore

# A stage takes seconds at least, and each look reads three rows or so.
POLL_S = 0.1
_BEGUN, _DOWN = "workers of stages", "workers that ended"


@dataclass(frozen=True)
class StageBarrier:
    """One process's part in a barrier that all workers of a run pass together."""

    store: RunStore
    run: str

    def enter(self, worker: str) -> None:
        """Enter a worker, before pytest runs its first test."""
        self._add(_BEGUN, worker)

    def leave(self, worker: str) -> None:
        """Enter that a worker has ended, or has no experiment, so that the others stop waiting for it."""
        self._add(_DOWN, worker)

    def pass_stage(self, worker: str, stage: int, check: Callable[[], None]) -> None:
        """Enter that a worker has run a stage, and wait until all others have, or have ended.

        `check` is called meanwhile, and may raise KeyboardInterrupt.
        """
        self._add(_subject_of(stage), worker)
        while not self._workers(_BEGUN) <= self._workers(_DOWN) | self._workers(_subject_of(stage)):
            check()
            time.sleep(POLL_S)

    def _add(self, subject: str, worker: str) -> None:
        # Its number is its key: a run has few workers, whose names differ.
        add_decision(self.store, self.run, subject, zlib.crc32(worker.encode()) >> 1, {"worker": worker})

    def _workers(self, subject: str) -> set[str]:
        return {body["worker"] for body in load_decisions(self.store, self.run, subject).values()}


def _subject_of(stage: int) -> str:
    return f"workers that ran stage {stage}"
