"""The supervisor: a small process that forks a confined child for each job, watches it, and cleans up.

It speaks JSON lines on its standard input and output, has no environment, and ends with its client.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import secrets
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.sandbox.child_process import run_contained
from pytest_crucible.sandbox.containment import containment, readable

# The modules that programs import most: loaded once, before forking.
PRELOADED = (
    *("bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "fractions", "functools", "hashlib"),
    *("heapq", "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "typing"),
)
# Seconds between two checks of the disk; a program may exceed its limit for that long.
DISK_CHECK_S = 0.05
# A report is one short line; more than this is not one.
MOST_REPORT = 1 << 16
# Small files take little disk space each, but many of them would slow the clean-up down.
MOST_FILES = 1000


@dataclass(slots=True)
class Child:
    """One child process and what it has sent so far."""

    process: int
    output: int
    result: int
    printed: bytearray = field(default_factory=bytearray)
    report: bytearray = field(default_factory=bytearray)
    stopped: tuple[str, str] | None = None
    """Status and detail when the supervisor ended it; else None."""


def main() -> None:
    """Serve jobs until the client closes the connection."""
    client_in, client_out = os.dup(0), os.dup(1)
    for name in PRELOADED:
        importlib.import_module(name)
    missing, libraries = containment().missing, readable()
    # A forked child would otherwise copy every page that its collector touches.
    gc.freeze()
    with open(client_in, encoding="ascii", closefd=False) as jobs, open(client_out, "w", encoding="ascii") as outcomes:
        while line := jobs.readline():
            job = json.loads(line)
            outcome = {"status": "refused", "detail": missing} if missing else run(job, libraries, client_in)
            outcomes.write(json.dumps(outcome) + "\n")
            outcomes.flush()


def run(job: dict[str, Any], libraries: tuple[str, ...], client: int) -> dict[str, Any]:
    """Run one job in its own process and directory, both gone when this returns."""
    job["token"] = secrets.token_hex(16)
    folder = tempfile.mkdtemp(prefix="crucible-program-")
    start = time.monotonic()
    try:
        child = _start(job, folder, libraries)
        try:
            _watch(child, job["limits"], folder, client, start)
        finally:
            status, used = _end(child, job["limits"])
        outcome = _outcome(child, job, status, used)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    printed = bytes(child.printed).decode("utf-8", "backslashreplace")
    return {**outcome, "output": printed, "seconds": time.monotonic() - start}


def _start(job: dict[str, Any], folder: str, libraries: tuple[str, ...]) -> Child:
    output, output_end = os.pipe()
    result, result_end = os.pipe()
    process = os.fork()
    if process == 0:
        run_contained(job, folder, libraries, output_end, result_end)
    os.close(output_end)
    os.close(result_end)
    os.set_blocking(output, False)
    os.set_blocking(result, False)
    return Child(process, output, result)


def _watch(child: Child, limits: Mapping[str, Any], folder: str, client: int, start: float) -> None:
    """Read from the child until it has replied, closed its pipe, or used up a limit."""
    deadline, next_check = start + limits["wall_s"], start + DISK_CHECK_S
    pipes = [child.result, child.output, client]
    while child.stopped is None:
        now = time.monotonic()
        if now >= deadline:
            child.stopped = ("timeout", f"not done after {limits['wall_s']:g} s")
            return
        if now >= next_check:
            child.stopped, next_check = _check_disk(folder, limits["disk_bytes"]), now + DISK_CHECK_S
        ready = select.select(pipes, (), (), max(0.0, min(deadline, next_check) - now))[0]
        # The client sends nothing while it waits, so a readable pipe means that it closed its end.
        if client in ready:
            child.stopped = ("killed", "the client is gone")
        if child.output in ready and not _read_into(child.output, child.printed, limits["output_bytes"]):
            pipes.remove(child.output)
        if child.result in ready:
            is_open = _read_into(child.result, child.report, MOST_REPORT)
            if not is_open or b"\n" in child.report:
                return


def _read_into(descriptor: int, received: bytearray, most: int) -> bool:
    """Read what is available, keeping the first `most` bytes; False at the end of the pipe."""
    try:
        chunk = os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return True
    received += chunk[: max(0, most - len(received))]
    return bool(chunk)


def _check_disk(folder: str, disk_bytes: int) -> tuple[str, str] | None:
    """Return the reason to stop a child that wrote too much, or None.

    There are no directories in its directory: it cannot make any.
    """
    size = count = 0
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for count, entry in enumerate(entries, start=1):
            with suppress(FileNotFoundError):
                size += entry.stat(follow_symlinks=False).st_blocks * 512
            if count > MOST_FILES:
                return "killed", f"it made more than {MOST_FILES} files"
    return ("killed", f"it wrote more than {disk_bytes} bytes") if size > disk_bytes else None


def _end(child: Child, limits: Mapping[str, Any]) -> tuple[int, float]:
    """Kill the child if it is still there; return its exit status and processor time."""
    # Safe: an ended process keeps its number until it is waited for.
    os.kill(child.process, signal.SIGKILL)
    _, status, used = os.wait4(child.process, 0)
    while child.output in select.select([child.output], (), (), 0)[0]:
        if not _read_into(child.output, child.printed, limits["output_bytes"]):
            break
    os.close(child.output)
    os.close(child.result)
    return status, used.ru_utime + used.ru_stime


def _outcome(child: Child, job: Mapping[str, Any], status: int, used: float) -> dict[str, str]:
    report = _parse_report(bytes(child.report), job["token"])
    if child.stopped is not None:
        return dict(zip(("status", "detail"), child.stopped, strict=True))
    if report is not None:
        return report
    signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if signalled == signal.SIGXCPU or used >= job["limits"]["cpu_s"]:
        return {"status": "timeout", "detail": f"not done after {job['limits']['cpu_s']} s of processor time"}
    if signalled:
        return {"status": "killed", "detail": f"by {_name(signalled)}"}
    return {"status": "failed", "detail": "ended the process before its end"}


def _parse_report(report: bytes, token: str) -> dict[str, str] | None:
    """Return the child's own report; None where it is cut short or lacks the token."""
    try:
        fields = json.loads(report.partition(b"\n")[0])
        is_known = fields["status"] in ("passed", "failed", "memory", "refused")
        # The program shares the pipe with its runner and could forge a report; it does not know the token.
        if is_known and secrets.compare_digest(fields["token"], token):
            return {"status": str(fields["status"]), "detail": str(fields["detail"])}
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
