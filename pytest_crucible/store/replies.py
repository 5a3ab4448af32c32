"""Batched lookups in a thread, so that an event loop never waits for a database.

Keys that are requested while one batch is looked up form the next batch: the busier the loop, the larger the batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from pytest_crucible.backends.cache import CachedReply, KnownAdapter
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply
from pytest_crucible.records.serialize import from_plain, pick, texts_in, to_plain
from pytest_crucible.store.database import BATCH_SIZE, from_json
from pytest_crucible.store.row_batch import Row
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import known_adapters, reply_cache
from pytest_crucible.store.texts import referred_text, sanitize_text, stored_text
from pytest_crucible.store.writer import Writer

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Lookup(Generic[Value]):
    key: str
    answer: asyncio.Future[Value | None]
    loop: asyncio.AbstractEventLoop


class BatchReader(Generic[Value]):
    """Finds values by key. `look_up` runs in the thread; its error is raised by every `find` of the batch."""

    def __init__(self, look_up: Callable[[list[str]], Mapping[str, Value]]) -> None:
        self._look_up = look_up
        self._wanted: queue.SimpleQueue[_Lookup[Value] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def find(self, key: str) -> Value | None:
        """Return the value of a key, or None without one. Callable from any loop."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="crucible-reader", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Value | None] = loop.create_future()
        self._wanted.put(_Lookup(key, answer, loop))
        return await answer

    def close(self) -> None:
        """Finish the pending lookups and end the thread. Idempotent."""
        if self._thread is not None:
            self._wanted.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        more = True
        while more:
            batch, more = self._batch()
            self._answer(batch)

    def _batch(self) -> tuple[list[_Lookup[Value]], bool]:
        """Return all pending lookups, at least one, and whether more may follow."""
        lookup, batch = self._wanted.get(), []
        with contextlib.suppress(queue.Empty):
            while lookup is not None:
                batch.append(lookup)
                if len(batch) == BATCH_SIZE:
                    break
                lookup = self._wanted.get_nowait()
        return batch, lookup is not None

    def _answer(self, batch: list[_Lookup[Value]]) -> None:
        values: Mapping[str, Value] | Exception
        try:
            values = self._look_up([lookup.key for lookup in batch])
        except Exception as error:  # nothing above this thread would see it: the callers raise it
            values = error
        for loop in {lookup.loop for lookup in batch}:
            # The loop was closed meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, [lookup for lookup in batch if lookup.loop is loop], values)


def _settle(batch: list[_Lookup[Value]], values: Mapping[str, Value] | Exception) -> None:
    for lookup in batch:
        # The caller was cancelled.
        if lookup.answer.done():
            continue
        if isinstance(values, Exception):
            lookup.answer.set_exception(values)
        else:
            lookup.answer.set_result(values.get(lookup.key))


MOST = 20_000
"""Keys held in memory. With more of them, every lookup queries the database."""


class AbsentKeys:
    """Reads the existing keys once, and then notes those that are added. Keys that other processes add are not noticed."""

    def __init__(self) -> None:
        self._there: set[str] | None = None
        self._added: set[str] = set()
        self._is_open = True

    @property
    def is_ignorant(self) -> bool:
        """True if the existing keys are still to be learned."""
        return self._is_open and self._there is None

    def learn(self, keys: Iterable[str]) -> None:
        """Note up to `MOST` + 1 of the existing keys, once. Callable from any thread."""
        if self.is_ignorant:
            there = set(keys)
            if len(there) > MOST:
                self._give_up()
            else:
                self._there = there

    def add(self, key: str) -> None:
        if self._is_open:
            self._added.add(key)
            if len(self._added) > MOST:
                self._give_up()

    def __contains__(self, key: str) -> bool:
        """Return whether the key is certainly absent."""
        there = self._there
        return self._is_open and there is not None and key not in there and key not in self._added

    def _give_up(self) -> None:
        self._is_open, self._there, self._added = False, None, set()


_LOOK_UP = f"""
    SELECT
        key, identity, created, reply, run,
        {stored_text("reply_cache")} AS text,
        {referred_text("reply_cache.reasoning_id")} AS reasoning
    FROM reply_cache WHERE key IN (:keys)
"""


class ReplyRows(Protocol):
    """Reads cached replies and known adapters of a run store: in this process or in another."""

    def read(self, keys: Sequence[str], most: int) -> tuple[list[Mapping[str, Any]], list[str]]:
        """Return the rows of some keys, and up to `most` of all keys that exist. Raises StoreError."""

    def find_adapter(self, settings: str) -> tuple[str, Mapping[str, str]] | None:
        """Return the identity and the files of the adapter that was last opened with these settings. Raises StoreError."""


class StoredRows:
    """The rows of a run store, which is opened on first use."""

    def __init__(self, store: Callable[[], RunStore]) -> None:
        self._store = store

    def read(self, keys: Sequence[str], most: int) -> tuple[list[Mapping[str, Any]], list[str]]:
        with self._store().connect() as connection:
            every = connection.scalars("SELECT key FROM reply_cache LIMIT :most", most=most) if most else ()
            return [dict(row) for row in connection.named_rows(_LOOK_UP, keys=list(keys))], list(every)

    def find_adapter(self, settings: str) -> tuple[str, Mapping[str, str]] | None:
        query = "SELECT identity, files FROM known_adapters WHERE settings = :settings"
        row = self._store().first(query, settings=settings)
        return None if row is None else (row[0], from_json(row[1]))


class StoredReplies:
    """A ReplyCache that reads in a thread of its own and writes through the store's writer."""

    def __init__(
        self, store: Callable[[], RunStore], writer: Callable[[], Writer], rows: ReplyRows | None = None
    ) -> None:
        """Store and writer are opened on first use. `rows` reads from another store, such as that of a worker's driver."""
        self._store = store
        self._writer = writer
        self._rows = rows or StoredRows(store)
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
        # A row that is not written yet has the reasoning itself in place of its reference.
        return await self._reader.find(key) if row is None else _cached_reply({**row, "reasoning": row["reasoning_id"]})

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
        adapter = self._rows.find_adapter(settings)
        return None if adapter is None else KnownAdapter(settings=settings, identity=adapter[0], files=adapter[1])

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
            row = {**pick(adapter, "settings identity"), "files": dict(adapter.files), "seen": time.time()}
            self._writer().put(known_adapters, row, overwrite=True)

    def _read(self, keys: list[str]) -> Mapping[str, CachedReply]:
        """Return the cached replies of some keys. Runs in the reader's thread."""
        rows, every = self._rows.read(keys, MOST + 1 if self._absent.is_ignorant else 0)
        self._absent.learn(every)
        entries = {row["key"]: _cached_reply(row) for row in rows}
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


def _storable_texts(reply: Reply) -> dict[str, str]:
    """Return the texts of a reply that a database can store as they are. JSON can write the others in ASCII."""
    return {name: text for name in _APART if (text := getattr(reply, name)) == sanitize_text(text)}


_APART = ("text", "reasoning")
# `text` has no default, and is always encoded.
_DEFAULTS = {**{field.name: getattr(Reply(text=""), field.name) for field in dataclasses.fields(Reply)}, "text": None}
_SCALARS: Mapping[str, type] = {
    "text": str,
    "input_tokens": int,
    "output_tokens": int,
    "latency_s": float,
    "first_token_s": float,
    "finish": str,
    "model": str,
    "system_fingerprint": str,
    "server": str,
    "cost_usd": float,
    "reasoning": str,
}
_SCALAR_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _cached_reply(row: Row | Mapping[Any, Any]) -> CachedReply | None:
    run = row["run"] or ""
    texts = {name: row[name] for name in _APART if row[name] is not None}
    reply = decode_reply(row["reply"], **texts, cached=True, paid_by=run)
    return None if reply is None else CachedReply(reply=reply, identity=row["identity"], at=row["created"], run=run)
