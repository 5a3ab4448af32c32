"""Watch confined processes: their reports, output, time and disk space."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.sandbox.disk_space import check_disk
from pytest_crucible.sandbox.job_clock import JobClock

# Seconds between two checks of the disk; a program may exceed its limit for that long.
DISK_CHECK_S = 0.05
# A report is one short line; more than this is not one.
MOST_REPORT = 1 << 16


@dataclass(slots=True)
class Children:
    """The processes of one job, the reporting one first, and their output so far."""

    processes: tuple[int, ...]
    output: int
    result: int
    printed: bytearray = field(default_factory=bytearray)
    report: bytearray = field(default_factory=bytearray)
    stopped: tuple[str, str] | None = None
    """Status and detail when they were ended from outside; else None."""


def watch(children: Children, limits: Mapping[str, Any], folder: str, client: int) -> None:
    """Read from the processes until one has replied, closed its pipe, or used up a limit."""
    clock = JobClock(children.processes, limits["wall_s"])
    next_check = clock.start + DISK_CHECK_S
    pipes = [children.result, children.output, client]
    while children.stopped is None:
        wait = max(0.0, min(clock.deadline, next_check) - time.monotonic())
        ready = select.select(pipes, (), (), wait)[0]
        # The client sends nothing while it waits, so a readable pipe means that it closed its end.
        if client in ready:
            children.stopped = ("killed", "the client is gone")
        if children.output in ready and not _read_into(children.output, children.printed, limits["output_bytes"]):
            pipes.remove(children.output)
        if children.result in ready:
            is_open = _read_into(children.result, children.report, MOST_REPORT)
            if not is_open or b"\n" in children.report:
                return
        # After the pipes: when this process itself did not run for a while, a report may lie there.
        if children.stopped is None and time.monotonic() >= next_check:
            children.stopped = check_disk(folder, children.processes, limits)
            next_check = time.monotonic() + DISK_CHECK_S
        if children.stopped is None and time.monotonic() >= clock.deadline:
            children.stopped = clock.stop_reason()


def _read_into(descriptor: int, received: bytearray, most: int) -> bool:
    """Read what is available, keeping the first `most` bytes; False at the end of the pipe."""
    try:
        chunk = os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return True
    received += chunk[: max(0, most - len(received))]
    return bool(chunk)


def end(children: Children, limits: Mapping[str, Any]) -> list[tuple[int, float]]:
    """Kill the processes that are still there; return exit status and processor time of each."""
    ends = []
    for process in children.processes:
        # Safe: an ended process keeps its number until it is waited for.
        os.kill(process, signal.SIGKILL)
        _, status, used = os.wait4(process, 0)
        ends.append((status, used.ru_utime + used.ru_stime))
    while children.output in select.select([children.output], (), (), 0)[0]:
        if not _read_into(children.output, children.printed, limits["output_bytes"]):
            break
    os.close(children.output)
    os.close(children.result)
    return ends
