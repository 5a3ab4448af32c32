"""The confined child processes: each gives up its rights, then runs a program, a submission's tests, or its code."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pytest_crucible.sandbox import code_process, landlock, seccomp, tests_process
from pytest_crucible.sandbox.kernel import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, drop_capabilities, machine, prctl
from pytest_crucible.sandbox.run_source import new_module, outcome_of, run_source

# The first descriptor besides input, output and errors: where a report goes.
REPORT = 3
# No process of the supervisor has as many descriptors open.
MOST_DESCRIPTORS = 4096


@dataclass(frozen=True, slots=True)
class Place:
    """The files of a child process."""

    folder: str
    """Its own directory, the only one that it may write to."""
    readable: tuple[str, ...]


def run_program(source: str, job: Mapping[str, Any], place: Place, output: int, report: int) -> NoReturn:
    """Run a program in this process, a fresh fork, and end it."""
    _take(output, report)
    _confine_or_report(job, place)
    module = new_module(job["name"])
    try:
        run_source(source, module)
        outcome = {"status": "passed", "detail": ""}
    except BaseException as error:
        outcome = outcome_of(error)
    _end({**outcome, "token": job["token"]})


def run_tests(tests: Mapping[str, Any], job: Mapping[str, Any], place: Place, output: int, *pipes: int) -> NoReturn:
    """Run the tests of a submission in this process and end it; `pipes` are those for report, calls and answers."""
    _take(output, *pipes)
    _confine_or_report(job, place)

    def end(outcome: Mapping[str, str]) -> NoReturn:
        _end({**outcome, "token": job["token"]})

    end(tests_process.run_tests(tests, job["name"], end))


def run_code(code: str, job: Mapping[str, Any], place: Place, output: int, *pipes: int) -> NoReturn:
    """Define a submission's functions in this process and answer calls; `pipes` are those for answers and calls."""
    _take(output, *pipes)
    try:
        _confine(job["limits"], place)
    except BaseException as error:
        code_process.send("confined", _problem(error))
        os._exit(1)
    code_process.send("confined", None)
    with contextlib.suppress(BaseException):
        code_process.serve(code, job["name"], job["functions"])
    _exit()


def _confine_or_report(job: Mapping[str, Any], place: Place) -> None:
    try:
        _confine(job["limits"], place)
    except BaseException as error:
        _end({"status": "refused", "detail": _problem(error), "token": job["token"]})


def _problem(error: BaseException) -> str:
    return f"the process could not be contained: {type(error).__name__}: {error}"


def _take(output: int, *pipes: int) -> None:
    """Keep output and pipes, the latter from REPORT on, and close every other descriptor that the parent had open."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Moved out of the way first: one pipe's new number may be another's old one.
    high = [fcntl.fcntl(pipe, fcntl.F_DUPFD, 256) for pipe in pipes]
    os.dup2(output, 1)
    os.dup2(output, 2)
    for number, pipe in enumerate(high, start=REPORT):
        os.dup2(pipe, number)
    os.closerange(REPORT + len(pipes), MOST_DESCRIPTORS)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 - they are never closed
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _confine(limits: Mapping[str, Any], place: Place) -> None:
    numbers, folder = machine(), place.folder
    if numbers is None:
        raise OSError("this machine has neither Landlock nor seccomp")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(HOME=folder, TMPDIR=folder, LC_ALL="C.UTF-8")
    os.umask(0o077)
    # The kernel kills this process when its supervisor dies.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Landlock and seccomp without root require it.
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    _limit(limits)
    # The order matters: each step must run before the filter, which forbids the system calls that it needs.
    landlock.restrict(numbers, readable=place.readable, writable=(folder, "/dev/null"))
    drop_capabilities(numbers)
    seccomp.install(numbers, os.getpid())


def _limit(limits: Mapping[str, Any]) -> None:
    cpu, memory = int(limits["cpu_s"]), int(limits["memory_bytes"])
    bounds = {
        resource.RLIMIT_CPU: (cpu, cpu + 1),
        resource.RLIMIT_AS: (memory, memory),
        resource.RLIMIT_FSIZE: (limits["file_bytes"],) * 2,
        resource.RLIMIT_NOFILE: (limits["open_files"],) * 2,
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_NPROC: (64, 64),
        resource.RLIMIT_MEMLOCK: (0, 0),
    }
    for bound, pair in bounds.items():
        hard = resource.getrlimit(bound)[1]
        resource.setrlimit(bound, tuple(value if hard == -1 else min(value, hard) for value in pair))


def _end(outcome: Mapping[str, Any]) -> NoReturn:
    """Report the outcome and end the process."""
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.write(REPORT, json.dumps(outcome).encode() + b"\n")
    os._exit(0)


def _exit() -> NoReturn:
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    os._exit(0)
