"""Workers of pytest-xdist that have imported everything already: for sessions that run in this process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import execnet.gateway_io
import pytest
from execnet.gateway_base import Popen2IO
from warm_process import WarmProcesses


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
