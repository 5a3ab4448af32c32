"""One limiter a server, for all who ask it: every arm, every experiment, and every worker of a run."""

from __future__ import annotations

import hashlib
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pytest_crucible.backends.limiting.control import Control
from pytest_crucible.backends.limiting.limiter import Limiter
from pytest_crucible.backends.limiting.limits import Limits
from pytest_crucible.backends.limiting.memory import Memory, PrivateMemory


@dataclass(frozen=True, slots=True)
class Workers:
    """The processes of one run on this machine."""

    run: str
    count: int


class Limiters:
    """Opened as they are asked for; `close` ends their timers and leaves what is shared."""

    def __init__(self, *, ordinary: float = math.inf, workers: Workers | None = None) -> None:
        """`ordinary` is how many samples are asked at a time, in all workers together."""
        self._ordinary = ordinary
        self._workers = workers
        self._limiters: dict[str, Limiter] = {}

    def of(self, server: str, limits: Limits) -> Limiter:
        """The limiter of a server. What several adapters allow holds together."""
        if server not in self._limiters:
            self._limiters[server] = Limiter(self._memory(server, limits))
        self._limiters[server].tighten(limits)
        return self._limiters[server]

    def paused_s(self, now: float) -> float:
        """How much longer the servers ask to pause: the longest of them."""
        return max((limiter.paused_s(now) for limiter in tuple(self._limiters.values())), default=0.0)

    def close(self) -> None:
        for limiter in self._limiters.values():
            limiter.close()
        self._limiters.clear()

    def _memory(self, server: str, limits: Limits) -> Memory:
        if self._workers is None or self._workers.count < 2:
            return PrivateMemory(Control(limits, self._ordinary))
        try:
            from pytest_crucible.backends.limiting.shared_memory import SharedMemory

            return SharedMemory(_path(self._workers.run, server), Control(limits, self._ordinary))
        except (ImportError, OSError):  # no fcntl, or nowhere to put a file: each takes its part
            parts = self._workers.count
            return PrivateMemory(Control(limits.share(parts), max(1.0, self._ordinary // parts)))


def _path(run: str, server: str) -> Path:
    """The run's id is drawn at random, and the server's name holds a digest of the key."""
    name = hashlib.sha256(f"{run} {server}".encode()).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"pytest-crucible-{name}"
