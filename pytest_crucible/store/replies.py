"""The reply cache in the run store: replies by key, and what is known of the adapters that gave them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import bindparam, select

from pytest_crucible.backends.caching import Kept, KnownAdapter
from pytest_crucible.records import Reply
from pytest_crucible.store.absent import Absent
from pytest_crucible.store.batches import BatchReader
from pytest_crucible.store.opening import explained
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import known_adapters, reply_cache
from pytest_crucible.store.writer import Row, Writer
from pytest_crucible.wire import from_plain, to_plain

_LOOK_UP = select(reply_cache).where(reply_cache.c.key.in_(bindparam("keys", expanding=True)))


class StoredReplies:
    """A ReplyCache. Reads in a thread of its own, and lets the store's writer write."""

    def __init__(self, store: Callable[[], RunStore], writer: Callable[[], Writer]) -> None:
        """Both are opened when something is first wanted of them."""
        self._store = store
        self._writer = writer
        self._reader = BatchReader(self._read)
        self._absent = Absent()
        self._unreadable: set[str] = set()
        self._introduced: list[KnownAdapter] = []

    async def get(self, key: str) -> Kept | None:
        """Raises StoreError."""
        if self._introduced:
            self._enter_introduced()
        if key in self._absent:
            return None
        row = self._writer().waiting(reply_cache, key)
        return await self._reader.find(key) if row is None else _kept(row)

    def put(self, key: str, kept: Kept, *, overwrite: bool = False) -> None:
        """Raises StoreError if an earlier write failed."""
        text = encoded(kept.reply)
        if text is not None and self._store().hide(text) == text:  # one with a key in it would come back as another
            row = {"key": key, "identity": kept.identity, "created": kept.at, "reply": text}
            self._writer().put(reply_cache, row, overwrite=overwrite or key in self._unreadable)
            self._absent.add(key)

    def introduce(self, adapter: KnownAdapter) -> None:
        self._introduced.append(adapter)

    def recognise(self, settings: str) -> KnownAdapter | None:
        """Raises StoreError."""
        store = self._store()
        query = select(known_adapters).where(known_adapters.c.settings == settings)
        with explained(store.location), store.engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else KnownAdapter(settings=settings, identity=row.identity, files=row.files)

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._reader.close()

    def _enter_introduced(self) -> None:
        while self._introduced:
            one = self._introduced.pop()
            row = {"settings": one.settings, "identity": one.identity, "files": dict(one.files), "seen": time.time()}
            self._writer().put(known_adapters, row, overwrite=True)

    def _read(self, keys: list[str]) -> Mapping[str, Kept]:
        """What is there of some keys. In the reader's thread."""
        store = self._store()
        with explained(store.location), store.engine.connect() as connection:
            self._absent.learn(lambda most: connection.scalars(select(reply_cache.c.key).limit(most)))
            rows = connection.execute(_LOOK_UP, {"keys": keys}).all()
        found = {row.key: _kept(row._mapping) for row in rows}
        self._unreadable.update(key for key, kept in found.items() if kept is None)
        return {key: kept for key, kept in found.items() if kept is not None}


def encoded(reply: Reply) -> str | None:
    """What a reply says beyond the defaults, as ASCII JSON; None for one that would come back as another.

    >>> encoded(Reply(text="4", output_tokens=1))
    '{"text":"4","output_tokens":1}'
    >>> encoded(Reply(text="", value=(1, 2)))  # JSON would make a list of it
    """
    told = {name: value for name in _DEFAULTS if (value := getattr(reply, name)) != _DEFAULTS[name]}
    if all(type(value) is _SCALARS.get(name) for name, value in told.items()):  # they come back as they are
        with contextlib.suppress(ValueError):  # not a number
            return _SCALAR_ENCODER.encode(told)
    try:
        text = json.dumps(to_plain(told), separators=(",", ":"))
    except TypeError:
        return None
    return text if decoded(text) == reply else None


def decoded(text: str, **marks: bool) -> Reply | None:
    """The reply that was encoded, with marks such as `cached`; None for a text that says none.

    >>> decoded('{"text":"4","output_tokens":1}') == Reply(text="4", output_tokens=1)
    True
    """
    try:
        plain = json.loads(text)
        reply = from_plain(Reply, {**plain, **marks})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return reply if isinstance(reply.text, str) else None


def _defaults() -> dict[str, Any]:
    """Of each field of a reply; `text` has none, and is always said."""
    empty = Reply(text="")
    return {**{field.name: getattr(empty, field.name) for field in dataclasses.fields(Reply)}, "text": None}


_DEFAULTS = _defaults()
_SCALARS: Mapping[str, type] = {
    "text": str,
    "input_tokens": int,
    "output_tokens": int,
    "latency_s": float,
    "first_token_s": float,
    "finish": str,
    "model": str,
    "cost_usd": float,
}
_SCALAR_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _kept(row: Row | Mapping[Any, Any]) -> Kept | None:
    reply = decoded(row["reply"], cached=True)
    return None if reply is None else Kept(reply=reply, identity=row["identity"], at=row["created"])
