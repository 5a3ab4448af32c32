"""Connections that end when a client is too slow, so that no number of slow clients stops the server."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

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
