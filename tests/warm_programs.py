"""Python programs that are started with `subprocess` in a test's process or in a warm one, as forks of a warm process."""

from __future__ import annotations

import contextlib
import inspect
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from warm_process import FORKS, WarmProcess, WarmProcesses

PARAMETERS = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]


def use_warm_programs(monkeypatch: pytest.MonkeyPatch, warm: WarmProcesses) -> None:
    """Let `subprocess` fork a warm process where it is to start this Python with `-m MODULE` or `-c CODE`."""
    if FORKS:
        warm.start()  # each program's own connection would end it
        monkeypatch.setattr(subprocess, "Popen", type("Popen", (WarmPopen,), {"folder": warm.folder}))


def use_warm_services(folder: Path) -> None:
    """Let `subprocess` in this warm process fork another one for a program that is to lead a session of its own.

    Other programs are in the session and process group of this process, to which the server of warm processes does not belong.
    """
    subprocess.Popen = type("Popen", (WarmPopen,), {"folder": folder, "leaders_only": True})  # type: ignore[misc]


class WarmPopen(subprocess.Popen[Any]):
    """A `subprocess.Popen` of a warm process, where its command is for this Python."""

    folder: Path
    leaders_only = False
    process: WarmProcess | None = None

    def _execute_child(self, *given: Any) -> None:
        values = PARAMETERS.bind(self, *given).arguments
        arguments = warm_arguments(values["args"])
        if not arguments or (self.leaders_only and not values["start_new_session"]):
            super()._execute_child(*given)  # type: ignore[misc]
            return
        pipes = [values[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        ends = {"stdin": pipes[0], "stdout": pipes[3], "stderr": pipes[5]}
        with contextlib.closing(WarmProcesses(self.folder)) as warm:
            self.process = warm.popen(  # type: ignore[assignment]
                arguments,
                cwd=Path(values["cwd"] or Path.cwd()),
                env=os.environ if values["env"] is None else values["env"],
                start_new_session=values["start_new_session"],
                pass_fds=values["pass_fds"],
                # -1 is a stream that is inherited.
                **{name: standard if end == -1 else end for standard, (name, end) in enumerate(ends.items())},
            )
        self.pid, self._child_created = self.process.pid, True  # type: ignore[union-attr]
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self.process is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        try:
            status = self.process.wait(0 if wait_flags & os.WNOHANG else None)
        except subprocess.TimeoutExpired:
            return 0, 0
        return self.pid, -status if status < 0 else status << 8

    def _internal_poll(self, *given: Any, **options: Any) -> int | None:
        if self.process is None:
            return super()._internal_poll(*given, **options)  # type: ignore[misc, no-any-return]
        if self.returncode is None and self._try_wait(os.WNOHANG)[0]:
            self.returncode = self.process.returncode  # type: ignore[assignment]
        return self.returncode


def warm_arguments(command: Any) -> Sequence[str]:
    """Return what a warm process understands, `-m MODULE ...` or `-c CODE`; nothing for another command."""
    if not isinstance(command, Sequence) or command[0] != sys.executable:
        return []
    arguments = [str(word) for word in command[1:]]
    if arguments[:1] == ["-u"]:  # a warm process writes each line at once
        del arguments[0]
    if arguments and arguments[0].startswith("-m") and arguments[0] != "-m":
        arguments[:1] = ["-m", arguments[0][2:]]
    return arguments if arguments and arguments[0] in ("-m", "-c") else []
