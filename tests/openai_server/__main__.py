"""Serve until standard input ends: print the port when ready."""

from __future__ import annotations

import argparse
import asyncio
import json
import selectors
import ssl
import sys

from .behaviour import NORMAL, Behaviour, behaving
from .connection import Connection
from .service import Service


class Punctual(selectors.DefaultSelector):
    """Wakes up in time: epoll waits for whole milliseconds, rounded up, so the last one is not slept through."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout and max(0.0, timeout - 0.001))


async def serve(host: str, port: int, certificate: str | None, behaviour: Behaviour) -> None:
    loop, service = asyncio.get_running_loop(), Service(behaviour)
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    server = await loop.create_server(lambda: Connection(service), host, port, ssl=context, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await loop.run_in_executor(None, sys.stdin.read)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="a free one by default")
    parser.add_argument("--host", default="127.0.0.1", help="the address that it listens on")
    parser.add_argument("--certificate", help="file of key and certificate: serve over TLS")
    parser.add_argument("--behaviour", default="{}", help="JSON: how it answers")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(Punctual())) as runner:
        runner.run(
            serve(options.host, options.port, options.certificate, behaving(NORMAL, json.loads(options.behaviour)))
        )


main()
