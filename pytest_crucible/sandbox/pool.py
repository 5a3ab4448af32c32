"""The sandbox for users: takes programs, returns their results."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.sandbox.messages import receive_message, send_message

VARIABLE = "CRUCIBLE_RUN_CODE"
HOW_TO_ALLOW = (
    "this metric runs code that a model wrote: allow it with --crucible-run-code or CRUCIBLE_RUN_CODE=1, "
    "where you would let a stranger's program run"
)
_MEANS_NO = ("", "0", "false", "no", "off")
_grants: list[bool] = []


class NotAllowed(RuntimeError):
    """Model-written code was about to run without the user's permission."""


def allow() -> None:
    """Allow model-written code in this process, until `withdraw`."""
    _grants.append(True)


def withdraw() -> None:
    if _grants:
        _grants.pop()


def is_yes(value: str) -> bool:
    """Return True unless the value of an environment variable means no."""
    return value.strip().lower() not in _MEANS_NO


def is_allowed() -> bool:
    """Return True after `allow`, or when the environment variable CRUCIBLE_RUN_CODE allows it."""
    return bool(_grants) or is_yes(os.environ.get(VARIABLE, ""))


def require() -> None:
    """Raise NotAllowed, with the ways to allow it, unless running code is allowed."""
    if not is_allowed():
        raise NotAllowed(HOW_TO_ALLOW)


# Code cannot contain it, so code cannot draw what its tests will draw.
_SEED_KEY = secrets.token_bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Untrusted code, and tests that call its functions from another process."""

    code: str
    """Defines the functions. It never sees the tests: only the arguments of each call."""
    tests: str
    """Pass if they run to their end without an exception."""
    functions: tuple[str, ...]
    """The names of the code's functions that the tests call."""
    setup: str = ""
    """Runs before the tests and without the code's functions: helpers of the tests."""
    seed: int | None = None
    """Of `random` in the tests; the code's is 0. By default a number that only this process can know, the same for equal tests."""

    def __post_init__(self) -> None:
        if self.seed is None:
            tests = f"{self.setup}\0{self.tests}".encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(tests, key=_SEED_KEY, digest_size=8).digest()
            object.__setattr__(self, "seed", int.from_bytes(digest))


Status = Literal["passed", "failed", "timeout", "memory", "killed", "refused", "starved"]
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The resources that one program may use.

    Time means processor time, so that a busy machine fails no program.

    >>> Limits(cpu_s=1, memory_bytes=64 << 20).wall_s
    10.0
    """

    cpu_s: int = 3
    wall_s: float = 10.0
    """Seconds on the clock, less those in which it waited for a processor: for programs that sleep."""
    memory_bytes: int = 512 * MEBIBYTE
    """Address space, the interpreter's own included (about 30 MiB)."""
    file_bytes: int = 8 * MEBIBYTE
    disk_bytes: int = 32 * MEBIBYTE
    """Size of its directory; checked 20 times a second."""
    open_files: int = 64
    output_bytes: int = 1 << 16
    """Output to keep; the rest is discarded."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{field.name} is {value}: a limit is a finite number above 0")
        if self.cpu_s != int(self.cpu_s):
            raise ValueError(f"cpu_s is {self.cpu_s}: the kernel counts whole seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a program: it ran to its end (passed), or the reason why not."""

    status: Status
    """`passed`; `failed` (an exception, or an exit before the end), `timeout`, `memory`, `killed` (by a signal, or for writing
    too much); `refused` when it was not run, because this machine cannot confine it; `starved` when this machine was too busy to
    give it its time."""
    detail: str = ""
    output: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.status == "passed"


ROOT = str(Path(__file__).resolve().parents[2])
_START = "import sys; sys.path.insert(0, {root!r}); from pytest_crucible.sandbox.supervisor import main; sys.path.pop(0); main()"
# The complete environment inside, without the user's variables.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
DEFAULT = Limits()


class SandboxBroken(RuntimeError):
    """The sandbox itself failed, so the program's result is unknown."""


class Sandbox:
    """Runs programs, up to `workers` at a time, each in its own process.

    Threads may share it. Close it after use.

    >>> with Sandbox(workers=1) as sandbox:  # doctest: +SKIP
    ...     sandbox.run("assert 1 + 1 == 2").status
    'passed'
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or max(1, min(len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1, 8))
        self._room = threading.BoundedSemaphore(self.workers)
        self._lock = threading.Lock()
        self._idle: list[subprocess.Popen[bytes]] = []

    def run(self, program: str | Submission, *, limits: Limits = DEFAULT, name: str = "__main__") -> Result:
        """Run a program, or a submission's code and tests in two processes. Raises NotAllowed, and SandboxBroken when it failed."""
        require()
        messages = _messages(program, limits, name)
        with self._room:
            supervisor = self._supervisor()
            try:
                outcome = _send_job(supervisor, messages)
            except BaseException as error:
                _stop(supervisor)
                if isinstance(error, OSError | ValueError | EOFError):
                    raise SandboxBroken(f"the sandbox's supervisor ended: {error or type(error).__name__}") from error
                raise
            with self._lock:
                self._idle.append(supervisor)
        return Result(**outcome)

    def run_all(
        self, programs: Iterable[str | Submission], *, limits: Limits = DEFAULT, name: str = "__main__"
    ) -> list[Result]:
        """Run several programs, `workers` at a time; results come in the order of the programs."""
        with ThreadPoolExecutor(self.workers, thread_name_prefix="crucible-sandbox") as threads:
            return list(threads.map(lambda program: self.run(program, limits=limits, name=name), programs))

    def close(self) -> None:
        """End the idle supervisors. A closed sandbox opens again when it is used."""
        with self._lock:
            idle, self._idle = self._idle, []
        for supervisor in idle:
            _stop(supervisor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _supervisor(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        # -I ignores the user's environment and site packages; -B writes no bytecode.
        return subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", _START.format(root=ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            bufsize=0,
            start_new_session=True,
        )


def _messages(program: str | Submission, limits: Limits, name: str) -> list[bytes]:
    """Return the job and its parts, each for another process: only that of the tests may read them."""
    job: dict[str, Any] = {"limits": asdict(limits), "name": name, "parts": 1}
    if isinstance(program, str):
        return [json.dumps(job).encode(), _text(program)]
    job |= {"parts": 2, "functions": program.functions}
    tests = {"tests": program.tests, "setup": program.setup, "functions": program.functions, "seed": program.seed}
    return [json.dumps(job).encode(), json.dumps(tests).encode(), _text(program.code)]


def _text(source: str) -> bytes:
    return source.encode("utf-8", "surrogatepass")


def _send_job(supervisor: subprocess.Popen[bytes], messages: Iterable[bytes]) -> dict[str, Any]:
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    for message in messages:
        send_message(supervisor.stdin.fileno(), message)
    result: dict[str, Any] = json.loads(receive_message(supervisor.stdout.fileno()))
    return result


def _stop(supervisor: subprocess.Popen[bytes]) -> None:
    """End a supervisor: when its input is closed, it cleans up and ends."""
    with suppress(OSError):
        supervisor.communicate(timeout=5)
    if supervisor.poll() is None:
        supervisor.kill()
        supervisor.wait()


_shared: list[Sandbox] = []
_sharing = threading.Lock()


def shared() -> Sandbox:
    with _sharing:
        if not _shared:
            _shared.append(Sandbox())
        return _shared[0]


def close_shared() -> None:
    with _sharing:
        while _shared:
            _shared.pop().close()
