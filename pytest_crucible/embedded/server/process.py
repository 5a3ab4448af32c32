"""A server as a child process: started, found ready, watched, and stopped again.

with LocalServer.start(directory) as server:
    tinker.ServiceClient(base_url=server.url, api_key=server.key)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

READY_S = 60.0
STOP_S = 10.0
_LOOK_S = 0.02


class ServerFailed(Exception):
    """A server that did not start, or is gone."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running server. Its key is not shown."""

    url: str
    key: str = field(repr=False)
    process: subprocess.Popen[bytes] = field(repr=False)
    log: Path = field(repr=False)

    @staticmethod
    def start(directory: Path, *, base: Path | None = None, ready_s: float = READY_S) -> LocalServer:
        """Start a server that keeps its checkpoints in `directory` and ends with this process at the latest.

        Ctrl-C does not reach it: whoever started it still needs it to wind up.
        Raises ServerFailed, with the end of what it said, when it is not ready in time.
        """
        directory.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(prefix="crucible-server-"))
        ready, log = room / "ready.json", room / "log.txt"
        command = [sys.executable, "-m", "pytest_crucible", "tinker-server", "--with-parent"]
        command += ["--directory", str(directory), "--ready-file", str(ready)]
        command += ["--base", str(base)] if base else []
        with log.open("wb") as said:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
            )
        try:
            told = _wait_until_ready(process, ready, time.monotonic() + ready_s)
        except BaseException as error:
            _end(process)
            said_last = _end_of(log)
            shutil.rmtree(room, ignore_errors=True)
            if isinstance(error, ServerFailed):
                raise ServerFailed(f"{error}; it said: {said_last}") from None
            raise
        return LocalServer(told["base_url"], told["api_key"], process, log)

    def environment(self) -> Mapping[str, str]:
        """Variables with which a `tinker` client finds this server; a proxy must not stand between."""
        exempt = ",".join(filter(None, (os.environ.get("NO_PROXY", ""), "127.0.0.1", "localhost")))
        return {
            "TINKER_BASE_URL": self.url,
            "TINKER_API_KEY": self.key,
            "TINKER_TELEMETRY": "0",
            "NO_PROXY": exempt,
            "no_proxy": exempt,
        }

    def check(self) -> None:
        """Raise ServerFailed when the process is gone: a client would go on trying for minutes."""
        if (status := self.process.poll()) is not None:
            raise ServerFailed(f"the local Tinker server has ended with status {status}; it said: {_end_of(self.log)}")

    def stop(self) -> None:
        """End the process, in order if it can; again changes nothing."""
        _end(self.process)
        shutil.rmtree(self.log.parent, ignore_errors=True)

    def __enter__(self) -> LocalServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _wait_until_ready(process: subprocess.Popen[bytes], ready: Path, until: float) -> dict[str, str]:
    while not ready.exists():
        if (status := process.poll()) is not None:
            raise ServerFailed(f"the local Tinker server ended with status {status} before it was ready")
        if time.monotonic() > until:
            raise ServerFailed("the local Tinker server was not ready in time")
        time.sleep(_LOOK_S)
    told: dict[str, str] = json.loads(ready.read_text(encoding="utf-8"))
    ready.unlink()
    return told


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_of(log: Path, characters: int = 2000) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-characters:].strip() or "nothing"
