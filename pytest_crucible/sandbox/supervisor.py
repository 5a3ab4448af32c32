"""The supervisor: a small process that forks a manager for each job, and ends with its client.

It never reads a job itself, so that no later program can find the tests of an earlier one in its memory. The manager forks the
confined processes, watches them, and reports the outcome.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, NoReturn

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.sandbox.child_process import GONE, Place, run_code, run_program, run_tests
from pytest_crucible.sandbox.confinement import (
    PR_GET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    containment,
    machine,
    prctl,
    readable,
)
from pytest_crucible.sandbox.messages import receive_message, send_message

# Small files take little disk space each, but many of them would slow the clean-up down.
MOST_FILES = 1000
# Bytes in the unit of st_blocks, on every file system (stat(2)).
_BLOCK = 512
File = tuple[int, int]
"""Device and inode: one file may be open, mapped and listed at once."""


def check_disk(folder: str, processes: Iterable[int], limits: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the reason to stop processes that wrote too much, or None. They cannot make directories."""
    sizes: dict[File, int] = {}
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for count, entry in enumerate(entries, start=1):
            with suppress(FileNotFoundError):
                sizes |= _size(entry.stat(follow_symlinks=False))
            if count > MOST_FILES:
                return "killed", f"it made more than {MOST_FILES} files"
    for process in processes:
        # A deleted file takes space until the last process has closed it.
        for deleted in _open_files(process):
            sizes |= deleted
        for file in _mapped_files(process, os.path.realpath(folder)):
            # The size of a closed file is unknown: it may be that of the largest file.
            sizes.setdefault(file, limits["file_bytes"])
    disk_bytes = limits["disk_bytes"]
    return ("killed", f"it wrote more than {disk_bytes} bytes") if sum(sizes.values()) > disk_bytes else None


def _size(status: os.stat_result) -> dict[File, int]:
    return {(status.st_dev, status.st_ino): status.st_blocks * _BLOCK}


def _open_files(process: int) -> Iterator[dict[File, int]]:
    with suppress(OSError), os.scandir(f"/proc/{process}/fd") as descriptors:
        for descriptor in descriptors:
            with suppress(OSError):
                status = os.stat(descriptor.path)
                if status.st_nlink == 0:
                    yield _size(status)


def _mapped_files(process: int, folder: str) -> Iterator[File]:
    """Yield the deleted files of the folder that a process has mapped."""
    with suppress(OSError), open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.endswith("(deleted)\n") and f" {folder}/" in line:
                device, inode = line.split()[3:5]
                major, minor = (int(part, 16) for part in device.split(":"))
                yield os.makedev(major, minor), int(inode)


# Seconds between two looks at processes whose time seems to be up.
LOOK_S = 0.05
# A job that would take longer than this many times its limit is not judged: its sample is lost.
MOST_STRETCH = 6
Thread = tuple[str, int, int]


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
        return sum(max((waited for _, _, waited in _threads(process)), default=0) for process in self.processes) / 1e9

    def _may_wait_now(self) -> bool:
        """Return True if a thread has waited since the last look: the kernel counts a wait only when it ends."""
        ready = frozenset(thread for process in self.processes for thread in _threads(process) if _is_ready(thread[0]))
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


REPORTED = ("passed", "failed", "memory", "refused", GONE)


def outcome(children: Children, job: Mapping[str, Any], ends: Sequence[tuple[int, float]]) -> dict[str, str]:
    """Return status and detail of a job whose processes have ended with these statuses and processor times."""
    if children.stopped is not None:
        return dict(zip(("status", "detail"), children.stopped, strict=True))
    report = _parse_report(bytes(children.report), job["token"])
    if report is not None and report["status"] != GONE:
        return report
    # Without a report the first process ended early; a report that the code is gone is about the last.
    status, used = ends[0] if report is None else ends[-1]
    signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if signalled == signal.SIGXCPU or used >= job["limits"]["cpu_s"]:
        return {"status": "timeout", "detail": f"not done after {job['limits']['cpu_s']} s of processor time"}
    if signalled:
        is_named = signalled in {*signal.Signals}
        return {
            "status": "killed",
            "detail": f"by {signal.Signals(signalled).name if is_named else f'signal {signalled}'}",
        }
    return {"status": "failed", "detail": "ended the process before its end"}


def _parse_report(report: bytes, token: str) -> dict[str, str] | None:
    """Return the child's own report; None if it is cut short or lacks the token."""
    try:
        fields = json.loads(report.partition(b"\n")[0])
        is_known = fields["status"] in REPORTED
        # The program shares the pipe with its runner and could forge a report; it does not know the token.
        if is_known and secrets.compare_digest(fields["token"], token):
            return {"status": str(fields["status"]), "detail": str(fields["detail"])}
    except (ValueError, KeyError, TypeError):
        pass
    return None


def serve_job(client_in: int, client_out: int, missing: str, libraries: tuple[str, ...]) -> None:
    """Read one job, run it, and send its result. Raises EOFError when the client is gone."""
    job = json.loads(receive_message(client_in))
    if missing:
        for _ in range(job["parts"]):
            receive_message(client_in)
        result = {"status": "refused", "detail": missing}
    else:
        result = _run(job, libraries, client_in)
    send_message(client_out, json.dumps(result).encode())


def _run(job: dict[str, Any], libraries: tuple[str, ...], client: int) -> dict[str, Any]:
    """Run one job in processes and a directory of its own, which are gone when this returns."""
    job["token"] = secrets.token_hex(16)
    folder = tempfile.mkdtemp(prefix="crucible-program-")
    start = time.monotonic()
    try:
        children = _start(job, Place(folder, libraries), client)
        try:
            watch(children, job["limits"], folder, client)
        finally:
            ends = end(children, job["limits"])
        result = outcome(children, job, ends)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    printed = bytes(children.printed).decode("utf-8", "backslashreplace")
    return {**result, "output": printed, "seconds": time.monotonic() - start}


def _start(job: dict[str, Any], place: Place, client: int) -> Children:
    output, output_end = os.pipe()
    report, report_end = os.pipe()
    opened = [output_end, report_end]
    if job["parts"] == 1:
        processes = [_fork(client, lambda part: run_program(part, job, place, output_end, report_end))]
    else:
        calls, calls_end = os.pipe()
        answers, answers_end = os.pipe()
        opened += [calls, calls_end, answers, answers_end]
        inner = (report_end, calls_end, answers)
        tests = _fork(client, lambda part: run_tests(json.loads(part), job, place, output_end, *inner))
        code = _fork(client, lambda part: run_code(part, job, place, output_end, answers_end, calls))
        processes = [tests, code]
    for descriptor in opened:
        os.close(descriptor)
    os.set_blocking(output, False)
    os.set_blocking(report, False)
    return Children(tuple(processes), output, report)


def _fork(client: int, run: Callable[[str], NoReturn]) -> int:
    """Fork a process that reads its own part of the job: this one must not hold the tests when it forks the code's process."""
    begun, begun_end = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            part = receive_message(client).decode("utf-8", "surrogatepass")
            os.write(begun_end, b".")
            os.close(begun_end)
            run(part)
        finally:
            os._exit(1)
    os.close(begun_end)
    has_read = os.read(begun, 1)
    os.close(begun)
    if not has_read:
        raise EOFError("a process ended before it had read its part of the job")
    return process


# The modules that programs import most: loaded once, before forking.
PRELOADED = (
    *("bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "fractions", "functools", "hashlib"),
    *("heapq", "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "typing"),
)


def main() -> None:
    """Serve jobs until the client closes the connection."""
    client_in, client_out = os.dup(0), os.dup(1)
    for name in PRELOADED:
        importlib.import_module(name)
    missing, libraries = containment().missing, readable()
    if machine() is not None:
        # The first call through ctypes takes 2 ms, which every child would spend again.
        prctl(PR_GET_NO_NEW_PRIVS)
    # A forked child would otherwise copy every page that its collector touches.
    gc.freeze()
    status = 0
    while status == 0:
        # Forked before its job arrives, which hides what forking costs.
        manager = os.fork()
        if manager == 0:
            _serve(client_in, client_out, missing, libraries)
        _, status = os.waitpid(manager, 0)


def _serve(client_in: int, client_out: int, missing: str, libraries: tuple[str, ...]) -> NoReturn:
    try:
        if machine() is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        serve_job(client_in, client_out, missing, libraries)
        os._exit(0)
    except BaseException:
        # The client is gone, or its messages cannot be parsed.
        os._exit(1)
