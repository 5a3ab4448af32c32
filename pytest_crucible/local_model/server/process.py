"""The server as a child process: started, ready, watched, and stopped.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

# Far above the start on an idle machine: on a busy CI machine Python and numpy alone may take many seconds to load.
READY_S = 60.0
# Time to shut down after SIGTERM; then the process is killed.
STOP_S = 10.0
_POLL_S = 0.02


class ServerFailed(Exception):
    """A server did not start, or has ended."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running server. Its key is not part of its repr."""

    url: str
    key: str = field(repr=False)
    process: subprocess.Popen[bytes] = field(repr=False)
    log: Path = field(repr=False)

    @staticmethod
    def start(
        directory: Path, *, base: Path | None = None, options: Sequence[str] = (), ready_s: float = READY_S
    ) -> LocalServer:
        """Start a server that stores its checkpoints in `directory` and ends with this process at the latest.

        `options` are further ones of `crucible tinker server`.

        Ctrl-C does not reach it, because its starter still needs it to finish.
        Raises ServerFailed, with the end of its output, if it is not ready in time.
        """
        directory.mkdir(parents=True, exist_ok=True)
        directory_of_files = Path(tempfile.mkdtemp(prefix="crucible-server-"))
        ready, log = directory_of_files / "ready.json", directory_of_files / "log.txt"
        command = [sys.executable, "-m", "pytest_crucible", "tinker", "server", "--with-parent"]
        command += ["--directory", str(directory), "--ready-file", str(ready)]
        command += [*(["--base", str(base)] if base else []), *options]
        with log.open("wb") as log_file:
            process = subprocess.Popen(
                # A session of its own: Ctrl-C in the terminal must not reach the server before its client.
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log_file,
                start_new_session=True,
            )
        try:
            ready_info = _wait_until_ready(process, ready, time.monotonic() + ready_s)
        except BaseException as error:
            _terminate(process)
            output = _log_tail(log)
            shutil.rmtree(directory_of_files, ignore_errors=True)
            if isinstance(error, ServerFailed):
                raise ServerFailed(f"{error}; its output: {output}") from None
            raise
        return LocalServer(ready_info["base_url"], ready_info["api_key"], process, log)

    def environment(self) -> Mapping[str, str]:
        """Return the variables with which a `tinker` client finds this server, without a proxy in between."""
        exempt = ",".join(filter(None, (os.environ.get("NO_PROXY", ""), "127.0.0.1", "localhost")))
        return {
            "TINKER_BASE_URL": self.url,
            "TINKER_API_KEY": self.key,
            "TINKER_TELEMETRY": "0",
            "NO_PROXY": exempt,
            "no_proxy": exempt,
        }

    def check(self) -> None:
        """Raise ServerFailed if the process has ended: a client would keep trying for minutes."""
        if (status := self.process.poll()) is not None:
            raise ServerFailed(
                f"the local Tinker server has ended with status {status}; its output: {_log_tail(self.log)}"
            )

    def stop(self) -> None:
        """Stop the process, cleanly if possible. Calling it again has no effect."""
        _terminate(self.process)
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
        time.sleep(_POLL_S)
    ready_info: dict[str, str] = json.loads(ready.read_text(encoding="utf-8"))
    ready.unlink()
    return ready_info


def _terminate(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _log_tail(log: Path, characters: int = 2000) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-characters:].strip() or "nothing"
