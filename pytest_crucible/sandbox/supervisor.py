"""The supervisor: a small process that forks a contained one for each job, watches it, and clears up after it.

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

from pytest_crucible.sandbox.contained import become
from pytest_crucible.sandbox.containment import containment, readable

PRELOADED = (
    *("bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "fractions", "functools", "hashlib"),
    *("heapq", "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "typing"),
)
"""What programs import most: loaded once, before they are forked."""
LOOK_S = 0.05
MOST_ANSWER = 1 << 16
MOST_FILES = 1000


@dataclass(slots=True)
class Watched:
    """One contained process, and what has been heard of it."""

    process: int
    output: int
    result: int
    printed: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)
    stopped: tuple[str, str] | None = None
    """Why it was ended, if it was: status and detail."""


def main() -> None:
    """Serve jobs until the client is gone."""
    client_in, client_out = os.dup(0), os.dup(1)
    for name in PRELOADED:
        importlib.import_module(name)
    missing, libraries = containment().missing, readable()
    gc.freeze()
    with open(client_in, encoding="ascii", closefd=False) as jobs, open(client_out, "w", encoding="ascii") as answers:
        while line := jobs.readline():
            job = json.loads(line)
            said = {"status": "refused", "detail": missing} if missing else run(job, libraries, client_in)
            answers.write(json.dumps(said) + "\n")
            answers.flush()


def run(job: dict[str, Any], libraries: tuple[str, ...], client: int) -> dict[str, Any]:
    """Run one job in a process and a directory of its own, both gone when this returns."""
    job["token"] = secrets.token_hex(16)
    folder = tempfile.mkdtemp(prefix="crucible-program-")
    begun = time.monotonic()
    try:
        watched = _start(job, folder, libraries)
        try:
            _watch(watched, job["limits"], folder, client, begun)
        finally:
            status, used = _end(watched, job["limits"])
        said = _verdict(watched, job, status, used)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    printed = bytes(watched.printed).decode("utf-8", "backslashreplace")
    return {**said, "output": printed, "seconds": time.monotonic() - begun}


def _start(job: dict[str, Any], folder: str, libraries: tuple[str, ...]) -> Watched:
    output, output_end = os.pipe()
    result, result_end = os.pipe()
    process = os.fork()
    if process == 0:
        become(job, folder, libraries, output_end, result_end)
    os.close(output_end)
    os.close(result_end)
    os.set_blocking(output, False)
    os.set_blocking(result, False)
    return Watched(process, output, result)


def _watch(watched: Watched, limits: Mapping[str, Any], folder: str, client: int, begun: float) -> None:
    """Listen until it has answered, closed its answer, or used up a limit."""
    deadline, look = begun + limits["wall_s"], begun + LOOK_S
    listening = [watched.result, watched.output, client]
    while watched.stopped is None:
        now = time.monotonic()
        if now >= deadline:
            watched.stopped = ("timeout", f"not done after {limits['wall_s']:g} s")
            return
        if now >= look:
            watched.stopped, look = _too_much(folder, limits["disk_bytes"]), now + LOOK_S
        ready = select.select(listening, (), (), max(0.0, min(deadline, look) - now))[0]
        if client in ready:  # it never asks before it was answered: this is its end
            watched.stopped = ("killed", "nobody waits for it any more")
        if watched.output in ready and not _hear(watched.output, watched.printed, limits["output_bytes"]):
            listening.remove(watched.output)
        if watched.result in ready:
            open_still = _hear(watched.result, watched.answered, MOST_ANSWER)
            if not open_still or b"\n" in watched.answered:
                return


def _hear(descriptor: int, heard: bytearray, most: int) -> bool:
    """Read what is there, keep the first `most` bytes. False at its end."""
    try:
        chunk = os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return True
    heard += chunk[: max(0, most - len(heard))]
    return bool(chunk)


def _too_much(folder: str, disk_bytes: int) -> tuple[str, str] | None:
    """Has it written more than it may? There are no directories in its directory: it cannot make any."""
    size = count = 0
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for count, entry in enumerate(entries, start=1):
            with suppress(FileNotFoundError):
                size += entry.stat(follow_symlinks=False).st_blocks * 512
            if count > MOST_FILES:
                return "killed", f"it made more than {MOST_FILES} files"
    return ("killed", f"it wrote more than {disk_bytes} bytes") if size > disk_bytes else None


def _end(watched: Watched, limits: Mapping[str, Any]) -> tuple[int, float]:
    """Kill it, if it is still there, and say how it ended and what processor time it took."""
    os.kill(watched.process, signal.SIGKILL)  # a process that has ended keeps its number until it is waited for
    _, status, used = os.wait4(watched.process, 0)
    while watched.output in select.select([watched.output], (), (), 0)[0]:
        if not _hear(watched.output, watched.printed, limits["output_bytes"]):
            break
    os.close(watched.output)
    os.close(watched.result)
    return status, used.ru_utime + used.ru_stime


def _verdict(watched: Watched, job: Mapping[str, Any], status: int, used: float) -> dict[str, str]:
    answer = _answer(bytes(watched.answered), job["token"])
    if watched.stopped is not None:
        return dict(zip(("status", "detail"), watched.stopped, strict=True))
    if answer is not None:
        return answer
    signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if signalled == signal.SIGXCPU or used >= job["limits"]["cpu_s"]:
        return {"status": "timeout", "detail": f"not done after {job['limits']['cpu_s']} s of processor time"}
    if signalled:
        return {"status": "killed", "detail": f"by {_name(signalled)}"}
    return {"status": "failed", "detail": "ended the process before its end"}


def _answer(said: bytes, token: str) -> dict[str, str] | None:
    """What it says of itself; None where that is cut short, or said by somebody who does not know the token."""
    try:
        answer = json.loads(said.partition(b"\n")[0])
        known = answer["status"] in ("passed", "failed", "memory", "refused")
        if known and secrets.compare_digest(answer["token"], token):
            return {"status": str(answer["status"]), "detail": str(answer["detail"])}
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
