"""The progress of an experiment without a terminal: one line each LOG_EVERY_S, so that a job's log does not fall silent."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_crucible.backends.context import BackendContext
from pytest_crucible.report.plan_lines import log_line
from pytest_crucible.sample.engine import Progress

LOG_EVERY_S = 20.0


class ProgressLog:
    """Writes a line for the progress, at most one each LOG_EVERY_S."""

    def __init__(self, write: Callable[[str], None], name: str, shared: BackendContext) -> None:
        self._write = write
        self._name = name
        self._shared = shared
        self._started = self._written = time.monotonic()

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._written >= LOG_EVERY_S:
            self._written = now
            self._write(self._line(progress, now))

    def _line(self, progress: Progress, now: float) -> str:
        load = self._shared.limiters.load()
        counts = f"{self._name}  {progress.done:,}/{progress.total:,}" + (
            f"  {progress.lost:,} lost" if progress.lost else ""
        )
        left = (progress.total - progress.done) / progress.done * (now - self._started) if progress.done else None
        waits_for = self._shared.waits_for(now) or (
            f"waiting for the server's rate: {load.cause}" if load.cause else ""
        )
        return log_line(
            counts, refused=load.refused_share, waiting=load.waiting_share, waits_for=waits_for, seconds_left=left
        )
