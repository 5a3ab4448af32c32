"""The confined child processes: each gives up its rights, then runs a program, a submission's tests, or its code."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import resource
import signal
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.sandbox.confinement import (
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    drop_capabilities,
    filter_program,
    install_filter,
    machine,
    prctl,
    restrict_files,
)
from pytest_crucible.sandbox.messages import (
    NotPlain,
    describe_exception,
    dump,
    load,
    rebuild_exception,
    receive_message,
    send_message,
    text_of,
)


def new_module(name: str, seed: int = 0) -> types.ModuleType:
    """Return an empty module, and seed `random`; dataclasses, pickle and typing look names up in sys.modules."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    # The same program must give the same result.
    random.seed(seed)
    return module


def run_source(source: str, module: types.ModuleType) -> None:
    """Execute source code in `module`. Its exceptions propagate."""
    exec(compile(source, "<program>", "exec", dont_inherit=True), module.__dict__)


def outcome_of(error: BaseException) -> dict[str, str]:
    """Return status and detail for the exception that ended a program."""
    if isinstance(error, MemoryError):
        return {"status": "memory", "detail": "MemoryError"}
    if isinstance(error, SystemExit):
        return {"status": "failed", "detail": f"exited before its end (status {text_of(error.code)})"}
    detail = text_of(error)
    name = type(error).__name__
    return {"status": "failed", "detail": f"{name}: {detail}" if detail else name}


# Descriptors of the two pipes to the tests' process.
CODE_ANSWERS, CODE_CALLS = 3, 4


def serve_calls(code: str, name: str, functions: Sequence[str]) -> None:
    """Run the code, then answer calls until the tests' process closes its pipe."""
    module = new_module(name)
    handles: list[Any] = []
    try:
        run_source(code, module)
        for function in functions:
            if function not in module.__dict__:
                raise NameError(f"{function} is not defined")
            handles.append(module.__dict__[function])
        send_status("loaded", None)
    except BaseException as error:
        _send_error(error)
        return
    while True:
        try:
            number, arguments, named = load(receive_message(CODE_CALLS), handles.__getitem__)
        except EOFError:
            return
        _answer(handles, handles[number], arguments, named)


def _answer(handles: list[Any], function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> None:
    def handle(value: Any) -> int:
        handles.append(value)
        return len(handles) - 1

    try:
        result, status = function(*arguments, **named), "returned"
        if isinstance(result, types.CoroutineType):
            import asyncio

            # The tests await it, so it runs in this process first.
            result, status = asyncio.run(result), "awaited"
        answer = dump([status, result], handle)
        send_message(CODE_ANSWERS, answer)
    except BaseException as error:
        _send_error(error)


def send_status(status: str, value: Any) -> None:
    send_message(CODE_ANSWERS, dump([status, value]))


def _send_error(error: BaseException) -> None:
    if isinstance(error, NotPlain):
        send_status("not plain", text_of(error))
    else:
        send_status("raised", describe_exception(error))


# Descriptors of the two pipes to the code's process; the one before them is the report's.
TESTS_CALLS, TESTS_ANSWERS = 4, 5
GONE = "gone"
End = Callable[[Mapping[str, str]], Any]


def outcome_of_tests(tests: Mapping[str, Any], name: str, end: End) -> Mapping[str, str]:
    """Return the outcome of the tests; `end` reports an outcome at once and ends the process."""
    module = new_module(name, tests["seed"])
    code = _Code(module.__dict__, end)
    try:
        compile(tests["tests"], "<tests>", "exec", dont_inherit=True)
        run_source(tests["setup"], module)
    except Exception as error:
        return {"status": "refused", "detail": f"the tests cannot be run: {outcome_of(error)['detail']}"}
    # Written before any of the code ran, so it can be trusted.
    if (problem := code.receive()) is not None:
        return {"status": "refused", "detail": str(problem)}
    try:
        code.receive()
        module.__dict__.update({function: Proxy(code, n, function) for n, function in enumerate(tests["functions"])})
        run_source(tests["tests"], module)
    except BaseException as error:
        return outcome_of(error)
    return {"status": "passed", "detail": ""}


class _Code:
    def __init__(self, namespace: Mapping[str, Any], end: End) -> None:
        self._namespace, self._end = namespace, end

    def call(self, proxy: Proxy, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Call a function and return its result. Raises what it raised, by the name of its class."""
        try:
            request = dump([proxy._number, arguments, dict(named)], _number_of)
        except NotPlain as problem:
            # Nothing that the code returned may make its sample lost instead of wrong.
            status = "failed" if isinstance(problem.value, types.CoroutineType) else "refused"
            self._end({"status": status, "detail": f"the tests call {proxy.__name__} with {problem}"})
        try:
            send_message(TESTS_CALLS, request)
        except OSError:
            self._end({"status": GONE, "detail": ""})
        return self.receive()

    def receive(self) -> Any:
        """Return the value of the next answer."""
        try:
            status, value = load(receive_message(TESTS_ANSWERS), lambda number: Proxy(self, int(number), "function"))
        except (EOFError, OSError):
            self._end({"status": GONE, "detail": ""})
        except (ValueError, TypeError) as error:
            self._end({"status": "failed", "detail": f"its answer is {error}"})
        if status == "raised":
            raise rebuild_exception(value, self._namespace)
        if status == "not plain":
            self._end({"status": "failed", "detail": f"it returned {value}"})
        return _return_later(value) if status == "awaited" else value


class Proxy:
    """A function of the code. Arguments and results are copies."""

    def __init__(self, code: _Code, number: int, name: str) -> None:
        self._code, self._number = code, number
        self.__name__ = self.__qualname__ = name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._code.call(self, arguments, named)


async def _return_later(value: Any) -> Any:
    """Return the result of an `async def` function, which has run already."""
    return value


def _number_of(value: Any) -> int:
    if isinstance(value, Proxy):
        return value._number
    raise NotPlain(value)


# The first descriptor besides input, output and errors: where a report goes.
REPORT = 3
# No process of the supervisor has as many descriptors open.
MOST_DESCRIPTORS = 4096


@dataclass(frozen=True, slots=True)
class Place:
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

    end(outcome_of_tests(tests, job["name"], end))


def run_code(code: str, job: Mapping[str, Any], place: Place, output: int, *pipes: int) -> NoReturn:
    """Define a submission's functions in this process and answer calls; `pipes` are those for answers and calls."""
    _take(output, *pipes)
    try:
        _confine(job["limits"], place)
    except BaseException as error:
        send_status("confined", _problem(error))
        os._exit(1)
    send_status("confined", None)
    with contextlib.suppress(BaseException):
        serve_calls(code, job["name"], job["functions"])
    _end()


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
    restrict_files(numbers, readable=place.readable, writable=(folder, "/dev/null"))
    drop_capabilities(numbers)
    install_filter(numbers, filter_program(numbers, os.getpid()))


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


def _end(outcome: Mapping[str, Any] | None = None) -> NoReturn:
    """End the process, with a report of the outcome."""
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    if outcome is not None:
        with contextlib.suppress(OSError):
            os.write(REPORT, json.dumps(outcome).encode() + b"\n")
    os._exit(0)
