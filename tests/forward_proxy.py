"""A forward proxy on 127.0.0.1, in a thread: it passes requests on as they are, opens tunnels, and keeps what was asked of it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class ForwardProxy:
    """`url` is where it is. Who does not send `authorization` gets 407, where one is given."""

    def __init__(self, authorization: str = "") -> None:
        self.url = ""
        self.asked: list[str] = []
        """The first lines of requests."""
        self._authorization = authorization

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        async with server:
            await stop.wait()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked.append(head.decode().splitlines()[0])
            if self._authorization and f"proxy-authorization: {self._authorization}".encode() not in head:
                writer.write(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n")
            else:
                await _pass_on(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@contextlib.contextmanager
def forward_proxy(authorization: str = "") -> Iterator[ForwardProxy]:
    proxy, ready, loop, stop = ForwardProxy(authorization), threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        thread = threading.Thread(target=lambda: runner.run(proxy.serve(ready, stop)))
        thread.start()
        ready.wait()
        try:
            yield proxy
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()


async def _pass_on(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    method, target, _ = head.decode().splitlines()[0].split()
    address = urlsplit(f"//{target}" if method == "CONNECT" else target)
    far_reader, far_writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far_writer.write(head)
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
    finally:
        far_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
    writer.close()
