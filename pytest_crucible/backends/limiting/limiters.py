"""The limiters of a session: one per server, shared by all arms, experiments and workers of a run."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

from pytest_crucible.backends.limiting.control import Control
from pytest_crucible.backends.limiting.limiter import Limiter
from pytest_crucible.backends.limiting.limits import Limits
from pytest_crucible.backends.limiting.load import Load, total_load
from pytest_crucible.backends.limiting.state import LimiterState, PrivateState
from pytest_crucible.records.private_files import runtime_folder


@dataclass(frozen=True, slots=True)
class Workers:
    """The processes of one run on this machine."""

    run: str
    count: int


class Limiters:
    """Opens limiters on demand; `close` stops their timers and leaves the state shared with other processes."""

    def __init__(self, *, ordinary: float = math.inf, workers: Workers | None = None) -> None:
        """`ordinary` is the number of concurrent samples, over all workers."""
        self._ordinary = ordinary
        self._workers = workers
        self._limiters: dict[str, Limiter] = {}

    def of(self, server: str, limits: Limits) -> Limiter:
        """Return the limiter of a server; if several adapters set limits, the strictest count."""
        if server not in self._limiters:
            self._limiters[server] = Limiter(self._state(server, limits))
        self._limiters[server].tighten(limits)
        return self._limiters[server]

    def paused_s(self, now: float) -> float:
        """Return the longest pause in seconds that a server has asked for."""
        return max((limiter.paused_s(now) for limiter in tuple(self._limiters.values())), default=0.0)

    def load(self) -> Load:
        """Return what the rates of all servers have cost in the present experiment. Thread-safe."""
        return total_load(limiter.load() for limiter in tuple(self._limiters.values()))

    def restart_load(self) -> None:
        """Begin to count again: another experiment begins."""
        for limiter in tuple(self._limiters.values()):
            limiter.restart_load()

    def close(self) -> None:
        for limiter in self._limiters.values():
            limiter.close()
        self._limiters.clear()

    def _state(self, server: str, limits: Limits) -> LimiterState:
        if self._workers is None or self._workers.count < 2:
            return PrivateState(Control(limits, self._ordinary))
        try:
            from pytest_crucible.backends.limiting.shared_state import SharedState

            return SharedState(_path(self._workers.run, server), Control(limits, self._ordinary))
        except (ImportError, OSError):
            # Without fcntl, or without a place for the file, each worker takes its part of the limits.
            parts = self._workers.count
            return PrivateState(Control(limits.share(parts), max(1.0, self._ordinary // parts)))


def _path(run: str, server: str) -> Path:
    # Not guessable: the run's id is drawn at random, and the server's name holds a digest of the key.
    name = hashlib.sha256(f"{run} {server}".encode()).hexdigest()[:24]
    return runtime_folder() / f"limits-{name}"
