"""The reply cache in the run store: replies by key, and the adapters that gave them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqlalchemy import bindparam, select

from pytest_crucible.backends.cache import CachedReply, KnownAdapter
from pytest_crucible.records import Reply
from pytest_crucible.records.serialize import from_plain, texts_in, to_plain
from pytest_crucible.store.batches import BatchReader
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.negative_cache import AbsentKeys
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.sanitize import sanitize_text
from pytest_crucible.store.schema import known_adapters, reply_cache
from pytest_crucible.store.texts import referred_text, stored_text
from pytest_crucible.store.writer import Row, Writer

_LOOK_UP = select(
    *(reply_cache.c[name] for name in ("key", "identity", "created", "reply", "run")),
    stored_text(reply_cache),
    referred_text(reply_cache.c.reasoning_id).label("reasoning"),
).where(reply_cache.c.key.in_(bindparam("keys", expanding=True)))


class StoredReplies:
    """A ReplyCache that reads in a thread of its own and writes through the store's writer."""

    def __init__(self, store: Callable[[], RunStore], writer: Callable[[], Writer]) -> None:
        """Store and writer are opened on first use."""
        self._store = store
        self._writer = writer
        self._reader = BatchReader(self._read)
        self._absent = AbsentKeys()
        self._unreadable: set[str] = set()
        self._introduced: list[KnownAdapter] = []

    async def get(self, key: str) -> CachedReply | None:
        """Return the cached reply of a key; None if there is none. Raises StoreError."""
        if self._introduced:
            self._enter_introduced()
        if key in self._absent:
            return None
        row = self._writer().waiting(reply_cache, key)
        return await self._reader.find(key) if row is None else _cached_reply(_with_texts(row))

    def put(self, key: str, entry: CachedReply, *, overwrite: bool = False) -> None:
        """Queue a reply to be stored, unless it holds a secret. Raises StoreError if an earlier write failed."""
        apart = _storable_texts(entry.reply)
        fields = encode_reply(entry.reply, without=apart)
        if fields is not None and not self._has_secret(entry.reply, fields):
            row = {
                "key": key,
                "identity": entry.identity,
                "created": entry.at,
                "reply": fields,
                "run": self._store().run_id or None,
                "text": apart.get("text"),
                "reasoning_id": apart.get("reasoning") or None,
            }
            self._writer().put(reply_cache, row, overwrite=overwrite or key in self._unreadable)
            self._absent.add(key)

    def remember_adapter(self, adapter: KnownAdapter) -> None:
        self._introduced.append(adapter)

    def find_adapter(self, settings: str) -> KnownAdapter | None:
        """Return the adapter that was last opened with these settings; None if none was. Raises StoreError."""
        store = self._store()
        query = select(known_adapters).where(known_adapters.c.settings == settings)
        with explain_errors(store.location), store.engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else KnownAdapter(settings=settings, identity=row.identity, files=row.files)

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._reader.close()

    def _has_secret(self, reply: Reply, fields: str) -> bool:
        """Return whether redaction would change the reply or its encoded fields, so that a cached copy would differ."""
        store, texts = self._store(), (reply.text, reply.reasoning)
        # Search the texts, not their JSON: after the two characters of an escaped line break a secret is not recognised.
        others = "\n".join(texts_in(json.loads(fields))) if "\\" in fields else fields
        return store.hide(others) != others or any(store.redact_once(text) != text for text in texts if text)

    def _enter_introduced(self) -> None:
        while self._introduced:
            adapter = self._introduced.pop()
            row = {
                "settings": adapter.settings,
                "identity": adapter.identity,
                "files": dict(adapter.files),
                "seen": time.time(),
            }
            self._writer().put(known_adapters, row, overwrite=True)

    def _read(self, keys: list[str]) -> Mapping[str, CachedReply]:
        """Return the cached replies of some keys. Runs in the reader's thread."""
        store = self._store()
        with explain_errors(store.location), store.engine.connect() as connection:
            self._absent.learn(lambda most: connection.scalars(select(reply_cache.c.key).limit(most)))
            rows = connection.execute(_LOOK_UP, {"keys": keys}).all()
        entries = {row.key: _cached_reply(row._mapping) for row in rows}
        self._unreadable.update(key for key, entry in entries.items() if entry is None)
        return {key: entry for key, entry in entries.items() if entry is not None}


def encode_reply(reply: Reply, *, without: Collection[str] = ()) -> str | None:
    """Return the fields of a reply that differ from the defaults, as ASCII JSON; None if JSON would change them.

    Texts to leave out are named by `without`.

    >>> encode_reply(Reply(text="4", output_tokens=1))
    '{"text":"4","output_tokens":1}'
    >>> encode_reply(Reply(text="", value=(1, 2)))  # JSON would turn the tuple into a list
    """
    fields = {
        name: value
        for name, default in _DEFAULTS.items()
        if name not in without and (value := getattr(reply, name)) != default
    }
    # JSON returns these unchanged.
    if all(type(value) is _SCALARS.get(name) for name, value in fields.items()):
        # Not a number.
        with contextlib.suppress(ValueError):
            return _SCALAR_ENCODER.encode(fields)
    try:
        text = json.dumps(to_plain(fields), separators=(",", ":"))
    except TypeError:
        return None
    return text if decode_reply(text, **{name: getattr(reply, name) for name in without}) == reply else None


def decode_reply(encoded: str, /, **marks: bool | str) -> Reply | None:
    """Return the reply that was encoded, with fields that were left out and marks such as `cached`.

    None for a text that is not a reply.

    >>> decode_reply('{"text":"4","output_tokens":1}') == Reply(text="4", output_tokens=1)
    True
    """
    try:
        plain = json.loads(encoded)
        reply = from_plain(Reply, {**plain, **marks})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return reply if isinstance(reply.text, str) else None


def _defaults() -> dict[str, Any]:
    """Return the default of each field of a reply. `text` has none, and is always encoded."""
    empty = Reply(text="")
    return {**{field.name: getattr(empty, field.name) for field in dataclasses.fields(Reply)}, "text": None}


def _storable_texts(reply: Reply) -> dict[str, str]:
    """Return the texts of a reply that a database can store as they are. JSON can write the others in ASCII."""
    return {name: text for name in _APART if (text := getattr(reply, name)) == sanitize_text(text)}


_APART = ("text", "reasoning")
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
    "reasoning": str,
}
_SCALAR_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _with_texts(row: Row) -> Row:
    """Return a row that is not written yet in the form of a query's row."""
    return {**row, "reasoning": row["reasoning_id"]}


def _cached_reply(row: Row | Mapping[Any, Any]) -> CachedReply | None:
    run = row["run"] or ""
    texts = {name: row[name] for name in _APART if row[name] is not None}
    reply = decode_reply(row["reply"], **texts, cached=True, paid_by=run)
    return None if reply is None else CachedReply(reply=reply, identity=row["identity"], at=row["created"], run=run)
