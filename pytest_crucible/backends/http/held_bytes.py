"""Limits on what a server can make its client hold: headers, and the replies that it sends at the same time."""

from __future__ import annotations

import functools
from collections.abc import Callable

from pytest_crucible.records.errors import BackendError, Retryable

# Servers send some hundred bytes; nginx and Apache accept 8 to 32 KiB of a request, httpx and curl 64 to 300 KiB of a response.
MAX_HEADERS = 64 * 1024
# Of all replies that one server sends at a time. 64 requests with 4 MB each, which is a reply of 8,000 tokens with 20 alternatives.
MAX_HELD = 256 * 1024 * 1024


class HeldBytes:
    """The bytes that are held of the replies that a server is sending."""

    def __init__(self, where: str, limit: int = MAX_HELD) -> None:
        self._where = where
        self._limit = limit
        self._held = 0
        self._holdings: set[Holding] = set()

    def open(self, drop: Callable[[BackendError], None]) -> Holding:
        """Return the count of one reply. `drop` stops reading the reply, with this error; it must not raise."""
        holding = Holding(self, drop)
        self._holdings.add(holding)
        return holding

    def change(self, by: int) -> None:
        """Count more bytes, or fewer. Above the limit the longest reply is dropped: it is the one that a server makes endless."""
        self._held += by
        # One reply alone is within the limit of its adapter.
        while self._held > self._limit and len(self._holdings) > 1:
            longest = max(self._holdings, key=lambda holding: holding.size)
            longest.close()
            longest.drop(self._error())

    def remove(self, holding: Holding) -> None:
        self._holdings.discard(holding)
        self._held -= holding.size

    def _error(self) -> BackendError:
        return Retryable(
            f"{self._where} sent more than {self._limit / 1e6:,.0f} MB of replies at the same time; the longest of them was not "
            "read: lower max_reply_bytes of the adapter, or --crucible-concurrency",
            kind="garbage",
        )


class Holding:
    """The bytes that are held of one reply."""

    __slots__ = ("_all", "_is_open", "drop", "size")

    def __init__(self, all_replies: HeldBytes, drop: Callable[[BackendError], None]) -> None:
        self._all = all_replies
        self._is_open = True
        self.drop = drop
        self.size = 0

    def resize(self, size: int) -> bool:
        """Set how many bytes are held now; return False if the reply was dropped."""
        if self._is_open:
            by, self.size = size - self.size, size
            self._all.change(by)
        return self._is_open

    def close(self) -> None:
        """Count the reply no longer."""
        if self._is_open:
            self._is_open = False
            self._all.remove(self)


@functools.cache
def held_of(where: str) -> HeldBytes:
    """Return the count of a server, which all clients of this process share."""
    return HeldBytes(where)


def headers_too_long(where: str) -> BackendError:
    """Return the error for headers that are not read to their end. It is not retried: they would be as long again."""
    return BackendError(
        f"{where} sent more than {MAX_HEADERS // 1024} KiB of headers; the rest was not read: "
        "check the server, or the gateway in front of it",
        kind="garbage",
    )
