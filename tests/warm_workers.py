"""Workers of pytest-xdist that have imported everything already: for sessions in a test's process, and in warm processes."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import execnet.gateway_io
import pytest
from execnet.gateway_base import Popen2IO
from warm_process import HANDLERS, WarmProcesses, fork_for


class WarmIO(Popen2IO):
    """execnet.gateway_io.Popen2IOMaster with a warm process."""

    def __init__(self, warm: WarmProcesses, command: list[str], execmodel: Any) -> None:
        (stdin, ours), (theirs, stdout) = os.pipe(), os.pipe()
        arguments = command[command.index("-c") :]
        self.popen = warm.popen(arguments, cwd=Path.cwd(), env=os.environ, stdin=stdin, stdout=stdout, stderr=2)
        for number in (stdin, stdout):
            os.close(number)
        super().__init__(os.fdopen(ours, "wb", 0), os.fdopen(theirs, "rb", -1), execmodel)

    def wait(self) -> int:
        return self.popen.wait()

    def kill(self) -> None:
        self.popen.kill()


def use_warm_workers(monkeypatch: pytest.MonkeyPatch, warm: WarmProcesses) -> None:
    monkeypatch.setattr(execnet.gateway_io, "Popen2IOMaster", lambda *given: WarmIO(warm, *given))


def fork_workers_of_this_process(folder: Path) -> None:
    """Let xdist start workers by forking this warm process, which has no thread yet: by a child that forks it when xdist asks.

    They are in the session and process group of this process, as xdist's own are: a signal to the group reaches them.
    """
    requests, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _fork_workers(requests, folder)
        os._exit(0)
    requests.close()
    warm = WarmProcesses(folder, ours)
    execnet.gateway_io.Popen2IOMaster = lambda *given: WarmIO(warm, *given)


def _fork_workers(requests: socket.socket, folder: Path) -> None:
    """Fork a worker for each request, until the session has ended."""
    for number in HANDLERS:
        signal.signal(number, signal.SIG_IGN)
    with open(os.devnull, "r+") as nothing:  # who reads the session's output waits until nobody can write any more
        for number in range(3):
            os.dup2(nothing.fileno(), number)
    while fork_for(requests, (requests,), folder):
        pass
