"""The server's process: `crucible tinker-server`.

When it is ready it prints one line, `TINKER_BASE_URL=... TINKER_API_KEY=...`, as `export` and `env` of a shell take it, and
runs until Ctrl-C or SIGTERM. For programs: with `--json` the line is JSON, `--ready-file` gets the same, readable for the owner
alone, and with `--with-parent` the server also ends when its standard input is closed or its parent process is gone, however
that ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_crucible.errors import SpecError

if TYPE_CHECKING:
    from pytest_crucible.embedded.engine import Engine

KEY_PREFIX = "tml-"
"""What the SDK wants a key to start with."""
_PARENT_CHECK_S = 1.0
_SWITCH_S = 0.0005
"""How long the model's thread may keep requests waiting between two bytecodes."""


def new_key() -> str:
    return KEY_PREFIX + secrets.token_hex(16)


@dataclass(frozen=True)
class Serving:
    """What a server is started with."""

    directory: Path
    """Checkpoints are kept here."""
    base: Path | None = None
    """Directory of a base model; None for the one in this package."""
    port: int = 0
    """On 127.0.0.1; 0 for a free one."""
    key: str = field(default_factory=new_key, repr=False)
    ready_file: Path | None = None
    with_parent: bool = False
    as_json: bool = False
    """Say on standard output what the ready file gets."""


def serve(options: Serving) -> None:
    """Run a server until it is told to stop. Raises SpecError when it cannot start."""
    if not options.key.startswith(KEY_PREFIX):
        raise SpecError(f"a key must start with {KEY_PREFIX!r}, as the tinker SDK has it")
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        # before numpy is imported: with more threads training is not bitwise repeatable
        os.environ.setdefault(name, "1")
    try:
        asyncio.run(_serve(options))
    except (OSError, OverflowError, ValueError) as error:
        raise SpecError(str(error)) from error


async def _serve(options: Serving) -> None:
    from pytest_crucible.embedded.engine import Engine
    from pytest_crucible.embedded.server.application import Application, refused
    from pytest_crucible.embedded.server.state import Service
    from pytest_crucible.embedded.server.transport import LOOPBACK, Limits, Server

    stop = asyncio.Event()
    _stop_on_signals(stop.set)
    if options.with_parent:
        _stop_with_parent(stop.set)
    sys.setswitchinterval(_SWITCH_S)
    engine: Engine = Engine.load(options.base) if options.base else Engine.packaged()
    service = Service(engine, options.directory)
    server = Server(Application(service, options.key).answer, refused, Limits())
    try:
        port = await server.start(options.port)
        try:
            _announce(f"http://{LOOPBACK}:{port}", options)
            await stop.wait()
        finally:
            service.stop("the server was stopped")
            await server.close()
    finally:
        service.stop("the server did not start")
        service.close()


def _announce(url: str, options: Serving) -> None:
    told = {"base_url": url, "api_key": options.key, "pid": os.getpid()}
    if options.ready_file:
        _write_ready_file(options.ready_file, told)
    print(json.dumps(told) if options.as_json else f"TINKER_BASE_URL={url} TINKER_API_KEY={options.key}", flush=True)


def _write_ready_file(path: Path, content: object) -> None:
    """All at once, so that a reader never sees half of it; only the owner may read it."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(draft, path)


def _stop_on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt instead
            loop.add_signal_handler(one, stop)


def _stop_with_parent(stop: Callable[[], None]) -> None:
    """Watch standard input, which the parent holds open, and who the parent is: a fork may hold the input open longer."""
    loop = asyncio.get_running_loop()
    parent = os.getppid()

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed already
            loop.call_soon_threadsafe(stop)

    def read() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        tell()

    def look() -> None:
        if os.getppid() != parent:
            stop()
        else:
            loop.call_later(_PARENT_CHECK_S, look)

    threading.Thread(target=read, name="parent", daemon=True).start()
    look()
