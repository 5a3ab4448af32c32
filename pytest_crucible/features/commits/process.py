"""The process in which a commit's functions run, as this process sees it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError

# The length of a message, before it.
LENGTH = struct.Struct(">I")
_PROGRAM = "pytest_crucible.features.commits.child"
# An application with large libraries may take minutes to import on a loaded machine.
START_S = 600.0
# Lines of its output that a message shows.
LINES = 5
Message = dict[str, Any]


@dataclass(frozen=True)
class Test:
    """A test function of the commit."""

    nodeid: str
    takes: tuple[str, ...]
    source: str
    """SHA-256 of its source."""


@dataclass(frozen=True)
class Start:
    """All that the process is started with."""

    interpreter: str
    folder: Path
    """Its working directory."""
    environment: Mapping[str, str]
    settings: Mapping[str, Any]
    """What `child.main` reads: other trees, the worktree, its folders of modules, the arguments of pytest, files."""
    log: Path
    """Receives its output."""


class CommitProcess:
    """A started process. Its units run at once; all methods may be called in any thread."""

    def __init__(self, start: Start) -> None:
        """Raises OSError."""
        spec = find_spec(_PROGRAM)
        assert spec is not None
        self._log = start.log
        with start.log.open("ab") as output:
            # A group of its own, so that Ctrl-C reaches this process alone, which then ends it with all that it has started.
            self._process = subprocess.Popen(
                [start.interpreter, str(spec.origin)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=start.folder,
                env=dict(start.environment),
                start_new_session=True,
            )
        self.has_ended = False
        self.first: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._outgoing: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._calls: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Queue[Message | None]]] = {}
        self._numbers, self._lock = itertools.count(), threading.Lock()
        works = (self._read, self._write)
        self._threads = [threading.Thread(target=work, name="crucible-commit", daemon=True) for work in works]
        for thread in self._threads:
            thread.start()
        self.send(dict(start.settings))

    def send(self, message: Message) -> None:
        """Send a message, which is written by another thread: a process that does not read blocks no loop."""
        self._outgoing.put(message)

    def begin(self, loop: asyncio.AbstractEventLoop) -> tuple[int, asyncio.Queue[Message | None]]:
        """Return the number of a new unit, and the queue of its messages; None is the end of the process."""
        number, messages = next(self._numbers), asyncio.Queue[Message | None]()
        with self._lock:
            self._calls[number] = loop, messages
            if self.has_ended:
                messages.put_nowait(None)
        return number, messages

    def end(self, number: int) -> None:
        """Forget a unit."""
        with self._lock:
            self._calls.pop(number, None)

    def wait_ready(self, timeout_s: float = START_S) -> Message | None:
        """Return the first message; None if the process has ended before it. Raises TimeoutError."""
        try:
            return self.first.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError from None

    def describe_end(self) -> str:
        """Return how the process has ended, with its last line of output."""
        status = self._process.wait()
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        lines = self.last_lines(1)
        return f"{how}; its last line of output: {lines[0]}" if lines else how

    def last_lines(self, most: int = LINES) -> list[str]:
        """Return the last lines of output that are not empty."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line.strip() for line in lines if line.strip()][-most:]

    def close(self) -> None:
        """End the process with the programs that it has started."""
        self._outgoing.put(None)
        try:
            self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.wait()
        # They close the pipes. A program that the process has started may hold one open.
        for thread in self._threads:
            thread.join(timeout=1)

    def kill(self) -> None:
        """Kill the process and its group."""
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "win32":  # pragma: no cover - where coverage is measured it is not
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)

    # -- threads --------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            while (message := _receive(pipe)) is not None:
                if "unit" not in message:
                    self.first.put(message)
                    continue
                with self._lock:
                    call = self._calls.get(message["unit"])
                if call is not None:
                    _deliver(*call, message)
        with self._lock:
            self.has_ended, calls = True, tuple(self._calls.values())
        for loop, messages in calls:
            _deliver(loop, messages, None)
        self.first.put(None)

    def _write(self) -> None:
        assert self._process.stdin is not None
        # The process may end at any time; its reader notices.
        with contextlib.suppress(OSError), self._process.stdin as pipe:
            while (message := self._outgoing.get()) is not None:
                data = json.dumps(message).encode()
                pipe.write(LENGTH.pack(len(data)) + data)
                pipe.flush()


def _deliver(loop: asyncio.AbstractEventLoop, messages: asyncio.Queue[Message | None], message: Message | None) -> None:
    # A loop that is closed has no unit that waits.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(messages.put_nowait, message)


def _receive(pipe: IO[bytes]) -> Message | None:
    """Return the next message; None at the end."""
    head = pipe.read(LENGTH.size)
    data = pipe.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
    try:
        message: Message | None = json.loads(data) if data else None
    except ValueError:
        # A process that was killed while it wrote.
        return None
    return message


def start_process(name: str, start: Start) -> tuple[CommitProcess, Message]:
    """Start the process of a commit; return it with its tests. Raises SpecError."""
    begun = time.monotonic()
    try:
        process = CommitProcess(start)
    except OSError as error:
        raise SpecError(f"{name}: {start.interpreter} cannot be started ({error.strerror or error})") from error
    try:
        ready = process.wait_ready()
    except TimeoutError:
        process.kill()
        seconds = time.monotonic() - begun
        raise SpecError(f"{name}: its tests were not imported within {seconds:.0f} s{_lines(process)}") from None
    except BaseException:
        process.kill()
        raise
    if ready is None or ready.get("op") != "ready":
        process.close()
        raise SpecError(f"{name}: pytest cannot collect its tests{_lines(process)}")
    return process, ready


def _lines(process: CommitProcess) -> str:
    return "".join(f"\n    {line}" for line in process.last_lines())


def find_test(ready: Message, nodeid: str) -> Test | None:
    """Return the test with a nodeid, or with another parameter: its arguments are those of today. None without one."""
    tests: Mapping[str, Mapping[str, Any]] = ready["tests"]
    function = nodeid.partition("[")[0]
    names: Sequence[str] = [name for name in (nodeid, function) if name in tests]
    names = names or [name for name in tests if name.partition("[")[0] == function]
    if not names:
        return None
    facts = tests[names[0]]
    return Test(names[0], tuple(facts["takes"]), facts["source"])
