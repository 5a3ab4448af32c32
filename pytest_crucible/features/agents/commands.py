"""Commands in processes of their own: each ends with all processes that it has started, and what it prints is kept."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Literal

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.sandbox import launcher
from pytest_crucible.sandbox.pool import ROOT
from pytest_crucible.sandbox.program_profile import own_files

# Of what a program prints: a traceback stands at the end, and what it began with at the beginning.
EACH_END = 1 << 16
# Between SIGTERM and SIGKILL: a program may want to write its last file.
GRACE_S = 2.0
# The launcher's own seconds to kill what is left, and to end.
_LAST_S = 7.0
# Between two looks at a program whose time is over but for what is credited.
LEAST_WAIT_S = 0.05
Ended = Literal["", "timeout", "unit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """A program that has ended: its exit status (negative: the signal that ended it), what it printed, and the seconds it ran."""

    exit_status: int
    output: str
    errors: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Command:
    """A program with its arguments, and where it runs."""

    words: Sequence[str]
    cwd: Path
    variables: Mapping[str, str]
    confined: bool = False
    """Whether it may write to `writable` alone, and connect to `port` alone."""
    writable: Sequence[Path] = ()
    port: int | None = None

    def find_program(self) -> str:
        """Return the path of the program. Raises FileNotFoundError and NotADirectoryError."""
        name = self.words[0]
        if not self.cwd.is_dir():
            raise NotADirectoryError(f"cwd={str(self.cwd)!r} is not a directory: {name} cannot run there")
        if os.sep in name:
            path = self.cwd / name
            program = str(path) if path.is_file() and os.access(path, os.X_OK) else None
        else:
            program = shutil.which(name, path=self.variables.get("PATH"))
        if program is None:
            raise FileNotFoundError(f"there is no program {name!r} to run: check its name, and the variable PATH")
        return program


def check_words(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the words of a command. Raises TypeError and ValueError for what is not a list of words."""
    if isinstance(command, str | bytes) or not command:
        raise TypeError(f'the command is {command!r}: write a list of words, for example ["python", "agent.py"]')
    words = [os.fspath(word) for word in command]
    if any("\0" in word for word in words):
        raise ValueError("a word of the command has the character NUL, which no program can get")
    return words


class PrintedText:
    """The text that a program prints: its beginning and its end."""

    def __init__(self, each_end: int = EACH_END) -> None:
        self._each_end = each_end
        self._head, self._tail = bytearray(), bytearray()
        self._left_out = 0

    def add(self, chunk: bytes) -> None:
        """Append what was printed, and drop what is too much from the middle."""
        room = self._each_end - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        if (surplus := len(self._tail) - self._each_end) > 0:
            del self._tail[:surplus]
            self._left_out += surplus

    def text(self) -> str:
        """Return the text, which says how much was left out."""
        middle = f"\n... {self._left_out} bytes left out ...\n" if self._left_out else ""
        if not middle:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        return f"{self._head.decode('utf-8', 'replace')}{middle}{self._tail.decode('utf-8', 'replace')}"


@dataclass(eq=False)
class RunningCommand:
    """A command's process."""

    process: asyncio.subprocess.Process
    report: int
    output: PrintedText = field(default_factory=PrintedText)
    errors: PrintedText = field(default_factory=PrintedText)
    begun: float = field(default_factory=time.time)
    ended: Ended = ""
    """Why it was ended, if it did not end by itself."""
    seconds: float = 0.0
    not_started: str = ""
    """Why the program could not be started."""
    _start: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._done = asyncio.ensure_future(self._read())

    @property
    def exit_status(self) -> int:
        status = self.process.returncode
        return status if status is not None else -9

    async def wait(self, timeout_s: float | None, credit: Callable[[], float] = lambda: 0.0) -> None:
        """Wait until the program has ended, or end it when the time is over. Cancelled, it ends it, too.

        `credit` returns the seconds so far that do not count.
        """
        before = credit()
        try:
            left = timeout_s
            while not self._done.done() and (left is None or left > 0):
                # Seconds that are credited while it waits leave it as much.
                await asyncio.wait((self._done,), timeout=left and max(left, LEAST_WAIT_S))
                left = timeout_s and timeout_s + credit() - before - (time.monotonic() - self._start)
            self.ended = self.ended or ("" if self._done.done() else "timeout")
        except asyncio.CancelledError:
            self.ended = "unit"
            raise
        finally:
            await self.stop()
            self.seconds = time.monotonic() - self._start
            self.not_started = _read_report(self.report)

    async def stop(self) -> None:
        """End the program and all that it has started, unless they have ended."""
        if self._done.done():
            return
        assert self.process.stdin is not None
        with suppress(OSError, RuntimeError):
            self.process.stdin.write(b"\n")
            self.process.stdin.close()
        await asyncio.wait((self._done,), timeout=GRACE_S + _LAST_S)
        if not self._done.done():
            with suppress(ProcessLookupError):
                self.process.kill()
            self._done.cancel()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        reading = asyncio.gather(
            _read_all(self.process.stdout, self.output), _read_all(self.process.stderr, self.errors)
        )
        await self.process.wait()
        # A process that escaped its launcher, killed from outside, may keep the pipes open.
        with suppress(TimeoutError):
            await asyncio.wait_for(reading, timeout=1)


async def _read_all(stream: asyncio.StreamReader, text: PrintedText) -> None:
    while chunk := await stream.read(1 << 16):
        text.add(chunk)


def _read_report(report: int) -> str:
    try:
        os.set_blocking(report, False)
        return os.read(report, 1 << 12).decode("utf-8", "replace")
    except BlockingIOError:
        return ""
    finally:
        os.close(report)


async def launch(command: Command) -> RunningCommand:
    """Start a command. Raises FileNotFoundError and NotADirectoryError."""
    if sys.platform == "win32":
        raise OSError(f"{command.words[0]} cannot be run: programs of agents need Linux or macOS")
    program = command.find_program()
    report, report_end = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-B", launcher.__file__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(report_end,),
            cwd=command.cwd,
            env=command.variables,
            start_new_session=True,
        )
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(report_end)
    assert process.stdin is not None
    order = {
        "program": program,
        "command": list(command.words),
        "report": report_end,
        "grace_s": GRACE_S,
        "confined": command.confined,
        "root": ROOT,
        "writable": [os.fspath(path) for path in command.writable],
        "files": own_files(command.words, program) if command.confined else [],
        "port": command.port,
    }
    process.stdin.write(json.dumps(order).encode() + b"\n")
    return RunningCommand(process, report)


async def run_command(command: Command, timeout_s: float | None) -> tuple[ProgramResult, Ended]:
    """Run a command to its end, or to that of its time. Raises OSError if it cannot be started."""
    running = await launch(command)
    await running.wait(timeout_s)
    return result_of(running, command), running.ended


def result_of(running: RunningCommand, command: Command) -> ProgramResult:
    """Return the result of a command that has ended. Raises OSError if it was not started."""
    if running.not_started:
        raise OSError(f"{command.words[0]} cannot be started: {running.not_started}")
    return ProgramResult(
        exit_status=running.exit_status,
        output=running.output.text(),
        errors=running.errors.text(),
        seconds=running.seconds,
    )
