"""The confined child process: gives up its rights, runs the program, and reports the outcome."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import sys
import types
from collections.abc import Mapping
from typing import Any

from pytest_crucible.sandbox import landlock, seccomp
from pytest_crucible.sandbox.kernel import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, drop_capabilities, machine, prctl

# The only descriptor besides input, output and errors.
RESULT = 3
# A program's error text is cut here: it could be megabytes long.
MOST_DETAIL = 1000


def run_contained(job: Mapping[str, Any], folder: str, readable: tuple[str, ...], output: int, result: int) -> None:
    """Run a job in this process, a fresh fork, and end it; never returns."""
    token = job["token"]
    try:
        _close_inherited(output, result)
        _confine(job["limits"], folder, readable)
    except BaseException as error:
        detail = f"the process could not be contained: {type(error).__name__}: {error}"
        _report({"status": "refused", "detail": detail, "token": token})
        os._exit(1)
    outcome = _run(job["program"], job["name"])
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    _report({**outcome, "token": token})
    os._exit(0)


def _close_inherited(output: int, result: int) -> None:
    """Close everything inherited from the parent except output and result."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    result = os.dup(result)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if result != RESULT:
        os.dup2(result, RESULT)
    # The supervisor has far fewer descriptors open than this.
    os.closerange(RESULT + 1, 4096)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 - they are never closed
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _confine(limits: Mapping[str, Any], folder: str, readable: tuple[str, ...]) -> None:
    numbers = machine()
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
    landlock.restrict(numbers, readable=readable, writable=(folder, "/dev/null"))
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


def _run(program: str, name: str) -> dict[str, str]:
    module = types.ModuleType(name)
    # dataclasses, pickle and typing look names up in sys.modules.
    sys.modules[name] = module
    # The same program must give the same result.
    random.seed(0)
    try:
        exec(compile(program, "<program>", "exec", dont_inherit=True), module.__dict__)
    except MemoryError:
        return {"status": "memory", "detail": "MemoryError"}
    except SystemExit as error:
        return {"status": "failed", "detail": f"exited before its end (status {_text_of(error.code)})"}
    except BaseException as error:
        detail = _text_of(error)
        return {"status": "failed", "detail": f"{type(error).__name__}: {detail}" if detail else type(error).__name__}
    return {"status": "passed", "detail": ""}


def _text_of(value: object) -> str:
    try:
        return str(value)[:MOST_DETAIL]
    except BaseException:
        # The program may define an exception whose __str__ raises.
        return ""


def _report(outcome: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(RESULT, json.dumps(outcome).encode() + b"\n")
