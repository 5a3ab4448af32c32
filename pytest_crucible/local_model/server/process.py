"""The server's process: run by `crucible tinker server`, or started, watched and stopped as a child.

with LocalServer.start(directory) as server:
    tinker.ServiceClient(base_url=server.url, api_key=server.key)

When it is ready it prints one line, `TINKER_BASE_URL=... TINKER_API_KEY=...`, as `export` and `env` of a shell accept it, and
runs until Ctrl-C or SIGTERM. For programs: with `--json` the line is JSON, `--ready-file` receives the same, readable only for
its owner, and with `--with-parent` the server also stops when its standard input is closed or its parent process has ended, for
whatever reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_crucible.quick_dataclass import dataclass

if TYPE_CHECKING:
    from pytest_crucible.local_model.engine import Engine
    from pytest_crucible.local_model.server.state import Service

# The SDK rejects keys with another prefix.
KEY_PREFIX = "tml-"
# Asking for the parent's id costs nothing, and a second is soon enough to free the model's memory.
_PARENT_CHECK_S = 1.0
# Interval after which the model's thread lets others run.
# The model's thread holds the interpreter while it computes: at Python's default of 5 ms, requests would wait noticeably.
_SWITCH_S = 0.0005


def new_key() -> str:
    return KEY_PREFIX + secrets.token_hex(16)


@dataclass(frozen=True)
class ServerOptions:
    directory: Path
    """Directory for checkpoints."""
    base: Path | None = None
    """Directory of a base model; None for the packaged one."""
    port: int = 0
    """Port on 127.0.0.1; 0 for a free one."""
    key: str = field(default_factory=new_key, repr=False)
    ready_file: Path | None = None
    with_parent: bool = False
    as_json: bool = False
    """Print what the ready file receives, as JSON."""
    stand_ins: Sequence[str] = ()
    """Names of other models, under which the embedded one answers."""
    stand_in_losses: Mapping[str, str] = field(default_factory=dict)
    """Losses that are computed instead of others, by the name of the other."""
    rules: Literal["local", "hosted"] | None = None
    """Rules of the hosted service, or without its refusals; None: hosted where CI is set."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Further variables that clients need, printed with the address."""


def serve(options: ServerOptions) -> None:
    """Run a server until it is stopped. Raises ValueError, OSError or OverflowError if it cannot start."""
    if not options.key.startswith(KEY_PREFIX):
        raise ValueError(
            f"the key does not start with {KEY_PREFIX!r}, which the tinker SDK requires: choose another one"
        )
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        # Set before numpy is imported: with more threads training is not bitwise repeatable.
        os.environ.setdefault(name, "1")
    asyncio.run(_serve(options))


async def _serve(options: ServerOptions) -> None:
    from pytest_crucible.local_model.engine import Engine
    from pytest_crucible.local_model.server.application import Application, refusal_response
    from pytest_crucible.local_model.server.state import Service
    from pytest_crucible.local_model.server.transport import LOOPBACK, Limits, Server

    stop = asyncio.Event()
    _stop_on_signals(stop.set)
    if options.with_parent:
        _stop_with_parent(stop.set)
    sys.setswitchinterval(_SWITCH_S)
    engine: Engine = Engine.load(options.base) if options.base else Engine.load_packaged()
    rules = options.rules or ("hosted" if is_in_ci() else "local")
    service = Service(
        engine,
        options.directory,
        stand_ins=options.stand_ins,
        stand_in_losses=options.stand_in_losses,
        has_hosted_rules=rules == "hosted",
    )
    server = Server(Application(service, options.key).answer, refusal_response, Limits())
    try:
        port = await server.start(options.port)
        try:
            ready_info = {"base_url": f"http://{LOOPBACK}:{port}", "api_key": options.key, "pid": os.getpid()}
            _announce(ready_info, options)
            _explain(service, is_default=options.rules is None)
            if options.ready_file:
                # Last: who reads it finds everything printed.
                _write_ready_file(options.ready_file, {**ready_info, **options.environment})
            await stop.wait()
        finally:
            service.stop("the server was stopped")
            await server.close()
    finally:
        service.stop("the server did not start")
        service.close()


def _announce(ready_info: Mapping[str, Any], options: ServerOptions) -> None:
    variables = {
        "TINKER_BASE_URL": ready_info["base_url"],
        "TINKER_API_KEY": options.key,
        **options.environment,
    }
    assignments = " ".join(f"{name}={value}" for name, value in variables.items())
    print(json.dumps({**ready_info, **options.environment}) if options.as_json else assignments, flush=True)


def is_in_ci() -> bool:
    """Return whether the variable CI is set, as services for continuous integration do."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def _explain(service: Service, *, is_default: bool) -> None:
    """Print what the names mean, on standard error, because standard output is for `export`."""
    from pytest_crucible.local_model.server.models import stand_in_sentence

    own = service.models.own
    lines = [f"{own.name} is {own.directory}: clients of SDK 0.38 find its tokenizer by this name"]
    if names := tuple(service.models.stand_ins):
        lines.append(stand_in_sentence(names))
        if os.environ.get("TINKER_API_KEY"):
            lines.append(
                f"TINKER_API_KEY is set: programs without the TINKER_BASE_URL above train {', '.join(names)} on the hosted service"
            )
    if service.has_hosted_rules:
        reason = ", because CI is set (--rules local lifts them)" if is_default else ""
        lines.append(
            f"rules of the hosted service{reason}: no sampling from tinker://RUN/weights/NAME, no checkpoint under the "
            "name of another base model, and no record_stability_info"
        )
    lines += [f"loss {name}: {other} is computed instead" for name, other in service.stand_in_losses.items()]
    print(*lines, sep="\n", file=sys.stderr, flush=True)


def _write_ready_file(path: Path, content: object) -> None:
    """Write the file all at once, so that no reader sees half of it; only its owner may read it."""
    # In the same directory, because os.replace cannot cross file systems. mkstemp makes it private.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(draft, path)


def _stop_on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        # On Windows, Ctrl-C raises KeyboardInterrupt instead.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(signal_number, stop)


def _stop_with_parent(stop: Callable[[], None]) -> None:
    """Stop when the parent has ended.

    Standard input, which the parent holds open, tells first; a forked child may hold it open longer, so the parent's id is
    checked as well.
    """
    loop = asyncio.get_running_loop()
    parent = os.getppid()

    def stop_loop() -> None:
        # The loop has closed already.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop)

    def read() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        stop_loop()

    def check_parent() -> None:
        if os.getppid() != parent:
            stop()
        else:
            loop.call_later(_PARENT_CHECK_S, check_parent)

    threading.Thread(target=read, name="parent", daemon=True).start()
    check_parent()


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
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": log_file}
            # A session of its own: Ctrl-C in the terminal must not reach the server before its client.
            process = subprocess.Popen(command, **pipes, start_new_session=True)
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

    def __exit__(self, *_: object) -> None:
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


def _log_tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:].strip() or "nothing"
