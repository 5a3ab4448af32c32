"""The server's process: `crucible tinker-server`.

When it is ready it prints one line, `TINKER_BASE_URL=... TINKER_API_KEY=...`, as `export` and `env` of a shell take it, and
runs until Ctrl-C or SIGTERM. For programs: `--ready-file` gets the same as JSON, readable for the owner alone, and with
`--with-parent` the server also ends when its standard input is closed or its parent process is gone, however that ended.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_crucible.embedded.engine import Engine

KEY_PREFIX = "tml-"
"""What the SDK wants a key to start with."""
_PARENT_CHECK_S = 1.0
_SWITCH_S = 0.0005
"""How long the model's thread may keep requests waiting between two bytecodes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a server until it is told to stop; 0 when it stopped in order, 2 when it could not start."""
    options = _parser().parse_args(arguments)
    if not options.key.startswith(KEY_PREFIX):
        print(f"tinker-server: a key must start with {KEY_PREFIX!r}, as the tinker SDK has it", file=sys.stderr)
        return 2
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(
            name, "1"
        )  # before numpy is imported: with more threads training is not bitwise repeatable
    try:
        asyncio.run(_serve(options))
    except (OSError, OverflowError, ValueError) as error:
        print(f"tinker-server: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="crucible tinker-server",
        description="A Tinker service on this machine, with a small model that trains and samples on the CPU.",
    )
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(".crucible/tinker"),
        help="checkpoints are kept here (default: %(default)s)",
    )
    parser.add_argument("--base", type=Path, help="directory of a base model (default: the one in this package)")
    parser.add_argument("--key", default=KEY_PREFIX + secrets.token_hex(16), help="API key (default: a new one)")
    parser.add_argument("--ready-file", type=Path, help="write URL, key and process id here as JSON when ready")
    parser.add_argument(
        "--with-parent", action="store_true", help="stop when standard input is closed or the parent process ends"
    )
    return parser


async def _serve(options: argparse.Namespace) -> None:
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


def _announce(url: str, options: argparse.Namespace) -> None:
    if options.ready_file:
        _write_ready_file(options.ready_file, {"base_url": url, "api_key": options.key, "pid": os.getpid()})
    print(f"TINKER_BASE_URL={url} TINKER_API_KEY={options.key}", flush=True)


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
