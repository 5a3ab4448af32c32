"""The sandbox for users: takes programs, returns their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pytest_crucible.sandbox import consent, pipes
from pytest_crucible.sandbox.results import Limits, Result
from pytest_crucible.sandbox.submission import Submission

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
        """Run a program, or a submission's code and tests in two processes; `name` is the `__name__` of each.

        Raises NotAllowed without consent, and SandboxBroken when the sandbox failed.
        """
        consent.require()
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
        pipes.send(supervisor.stdin.fileno(), message)
    result: dict[str, Any] = json.loads(pipes.receive(supervisor.stdout.fileno()))
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
    """Return the sandbox that this process shares."""
    with _sharing:
        if not _shared:
            _shared.append(Sandbox())
        return _shared[0]


def close_shared() -> None:
    """Close the shared sandbox if it was opened."""
    with _sharing:
        while _shared:
            _shared.pop().close()
