"""The clock of a job: it stands still while the job's processes wait for a processor, as they do on a loaded machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

# Seconds between two looks at processes whose time seems to be up.
LOOK_S = 0.05
# A job that would take longer than this many times its limit is not judged: its sample is lost.
MOST_STRETCH = 6
Thread = tuple[str, int, int]
"""Its directory, and its nanoseconds on a processor and waiting for one."""


@dataclass(slots=True)
class JobClock:
    """The time that the processes of a job have left."""

    processes: tuple[int, ...]
    wall_s: float
    start: float = field(default_factory=time.monotonic)
    deadline: float = 0.0
    """When to look at the processes next, on the monotonic clock."""
    _ready: frozenset[Thread] = frozenset()

    def __post_init__(self) -> None:
        self.deadline = self.start + self.wall_s

    def stop_reason(self) -> tuple[str, str] | None:
        """Return status and detail if the time is up; else None, with a later deadline."""
        now = time.monotonic()
        elapsed, waited = now - self.start, self._waited_s()
        if elapsed >= self.wall_s + waited and not self._may_wait_now():
            return "timeout", f"not done after {self.wall_s:g} s"
        if elapsed >= MOST_STRETCH * self.wall_s:
            return (
                "starved",
                f"the machine is too busy: not done after {elapsed:.1f} s, {waited:.1f} s of them without a processor",
            )
        self.deadline = max(self.start + self.wall_s + waited, now + LOOK_S)
        return None

    def _waited_s(self) -> float:
        """Return the seconds for which the processes were ready to run but had no processor.

        Tests and code run in turn, so that their times add up. Of a process it is that of the thread that waited longest:
        the times of threads that wait for each other would otherwise buy time.
        """
        return sum(max((waited for _, _, waited in _threads(one)), default=0) for one in self.processes) / 1e9

    def _may_wait_now(self) -> bool:
        """Return True if a thread has waited since the last look: the kernel counts a wait only when it ends."""
        ready = frozenset(thread for one in self.processes for thread in _threads(one) if _is_ready(thread[0]))
        is_waiting = bool(ready & self._ready) or (not self._ready and bool(ready))
        self._ready = ready
        return is_waiting


def _threads(process: int) -> Iterator[Thread]:
    with suppress(OSError), os.scandir(f"/proc/{process}/task") as threads:
        for thread in threads:
            with suppress(OSError, ValueError), open(f"{thread.path}/schedstat", encoding="ascii") as file:
                running, waited, _ = file.read().split()  # Documentation/scheduler/sched-stats.rst
                yield thread.path, int(running), int(waited)


def _is_ready(thread: str) -> bool:
    with suppress(OSError), open(f"{thread}/stat", encoding="utf-8", errors="replace") as file:
        # The name before the state is the program's own choice, and may hold brackets.
        return file.read().rpartition(")")[2].split()[0] == "R"
    return False
