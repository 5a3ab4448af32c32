"""Serves a dashboard until Ctrl-C. Connections end when a client is too slow, so that slow clients do not stop the server."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pytest_crucible.features.view.application import make_application
from pytest_crucible.features.view.site import Site
from pytest_crucible.records.errors import SpecError


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a host and port; port 0 is any free one. Raises SpecError."""
    try:
        return _listen(host, port)
    except (socket.gaierror, UnicodeError):
        raise SpecError(
            f"--host {host} is no host that exists: use --host 127.0.0.1, or an address of this machine"
        ) from None
    except OSError as error:
        raise SpecError(_explain(error, host, port)) from error


def _listen(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listening = socket.create_server(address[:2], family=family)
    # Its connections inherit it: asyncio sets it on none of a socket that it has not made, and a body would wait 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def origins(listening: socket.socket) -> list[str]:
    """Return the beginnings of the addresses that a socket answers: of all hosts, this machine's and its name."""
    host, port = listening.getsockname()[:2]
    hosts = [_LOOPBACKS[host], socket.gethostname()] if host in _LOOPBACKS else [host]
    return [f"http://{f'[{name}]' if ':' in name else name}:{port}" for name in hosts]


_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def _explain(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken: use {_next_free(host, port)}--port 0 for any free one"
    if error.errno == errno.EACCES:
        return f"port {port} is only for administrators: use --port 8765, or --port 0 for any free one"
    return f"--host {host} is not an address of this machine: use --host 127.0.0.1"


def _next_free(host: str, port: int) -> str:
    for candidate in range(port + 1, min(port + 100, 65_535)):
        with contextlib.suppress(OSError), _listen(host, candidate):
            return f"--port {candidate}, or "
    return ""


class DashboardServer(uvicorn.Server):
    """Ends the event streams of open pages when it stops: it waits for all responses."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.watcher.close()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def make_server(site: Site) -> uvicorn.Server:
    """Return the server of a site; `run(sockets=[...])` serves on sockets."""
    config = uvicorn.Config(
        make_application(site),
        http=Connection,
        ws="none",
        lifespan="off",
        # Addresses are in no log.
        access_log=False,
        log_level="critical",
        server_header=False,
        proxy_headers=False,
        # Connections are accepted so many at a time, each before one that waits too long ends.
        backlog=MOST,
        timeout_graceful_shutdown=1,
    )
    return DashboardServer(config)


def serve(site: Site, listening: socket.socket) -> None:
    """Serve a site on a socket until KeyboardInterrupt."""
    server = make_server(site)
    # Broken connections are an everyday matter.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    ended = threading.Event()
    threading.Thread(target=_run, args=[server, listening, ended], daemon=True).start()
    try:
        # On Windows, Ctrl-C does not interrupt a wait without an end.
        while not ended.wait(1):
            pass
    finally:
        server.should_exit = True
        ended.wait(STOP_S)


def _run(server: uvicorn.Server, listening: socket.socket, ended: threading.Event) -> None:
    try:
        server.run(sockets=[listening])
    finally:
        # A Ctrl-C during `Thread.join` would look like the end of the thread.
        ended.set()


STOP_S = 3
"""Seconds for open responses to end."""


@contextlib.contextmanager
def until_interrupted() -> Iterator[None]:
    """End the context, without an error, with Ctrl-C or a signal to end.

    A program in the background gets Ctrl-C too, for which a shell switches it off.
    """
    before = {each: signal.signal(each, signal.default_int_handler) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def end_process() -> None:
    """End the process without waiting for pages that are still computed: they write nothing."""
    if threading.active_count() > 1:
        sys.stdout.flush()
        os._exit(0)


REQUEST_S = 10.0
"""Within which a request has arrived; a browser sends it at once."""
RESPONSE_S = 20.0
"""Within which a client reads something of the response that it waits for."""
MOST = 100
"""Connections at a time: a browser has six of each dashboard. Fewer than the files that a process may open anywhere."""


class Connection(H11Protocol):
    """A connection with limits. Of too many, one that waits for a request ends first, and the longest waiting first of all."""

    _since = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        others: list[Any] = [each for each in self.connections if each is not self and not each.transport.is_closing()]
        if len(others) >= MOST:
            min(others, key=Connection.rank).transport.abort()

    def rank(self) -> tuple[bool, float]:
        """Return the place among the connections that may end: the smallest ends first."""
        return self._is_responding(), self._since

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self._is_responding() and not self.flow.write_paused:
            self._stop_timer()

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._check_reading(self.transport.get_write_buffer_size() + 1)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_timer()

    def _is_responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        """Wait for the next request, but not longer than a browser needs."""
        self._since = self.loop.time()
        self._start_timer(REQUEST_S, self._check_reading, self.transport.get_write_buffer_size())

    def _check_reading(self, unread: int) -> None:
        """End the connection if the client has read nothing of what was unread."""
        rest = self.transport.get_write_buffer_size()
        if rest < unread:
            self._start_timer(RESPONSE_S, self._check_reading, rest)
        else:
            self.transport.abort()

    def _start_timer(self, seconds: float, act: Any, *values: Any) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, act, *values)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
