"""The contract of every ReplyCache: in memory, in an SQLite file, in PostgreSQL, and of a worker that reads its driver's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from memory_replies import MemoryReplies

from pytest_crucible.backends.cache import CachedReply, KnownAdapter, ReplyCache
from pytest_crucible.features.scale.worker_units import BlockRows, OpenBlock
from pytest_crucible.records import Reply
from pytest_crucible.store.replies import StoredReplies, StoredRows
from pytest_crucible.store.row_batch import OutcomeRows
from pytest_crucible.store.row_batches import decode_rows, encode_rows
from pytest_crucible.store.runs import RunStore

KEY, OTHER = "a" * 64, "b" * 64
WHOLE = Reply(
    text="the \ud83d half, nul \0, Ω",
    input_tokens=12,
    output_tokens=3,
    latency_s=0.25,
    first_token_s=0.1,
    finish="tool_calls",
    value={"answer": [1, 2.5, None, True, "x"]},
    logprobs=(-0.5, float("-inf")),
    tool_calls=({"name": "add", "arguments": {"a": 1}},),
    alternatives=(Reply(text="another"),),
    model="v2",
    cost_usd=0.00125,
    members={"v1": Reply(text="4", logprobs=(-0.1,)), "v2": Reply(text="5")},
    consensus=0.5,
)
Open = Callable[[], contextlib.AbstractContextManager[ReplyCache]]


@pytest.fixture(params=["memory", "sqlite", "postgresql", "a worker"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same cache again and again, as one session after another does."""
    if request.param == "memory":
        memory = MemoryReplies()
        return lambda: contextlib.nullcontext(memory)
    if request.param == "a worker":
        return lambda: open_worker(tmp_path)
    location = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgresql")
    return lambda: open_stored(location)


@contextlib.contextmanager
def open_stored(location: str) -> Iterator[StoredReplies]:
    store = RunStore(location)
    writer = store.writer()
    replies = StoredReplies(lambda: store, lambda: writer)
    yield replies
    replies.close()
    writer.close()
    store.close()


@contextlib.contextmanager
def open_worker(folder: Path) -> Iterator[StoredReplies]:
    """The cache of a worker: it reads the driver's store, and its rows arrive there with its blocks."""
    driver, own = RunStore(str(folder / "driver.db")), RunStore(str(folder / "worker.db"))
    rows, writer = BlockRows(), driver.writer()
    replies = StoredReplies(lambda: own, lambda: rows, StoredRows(lambda: driver))
    yield replies
    replies.close()
    block = OpenBlock(set(), OutcomeRows(own.redact_once, lambda: "", own.hide_id, stores_texts=True))
    rows.finish(block)
    for table, overwrite, batch in decode_rows(encode_rows(block.tables())):
        for row in batch:
            writer.put(table, row, overwrite=overwrite)
    writer.close()
    for store in (driver, own):
        store.close()


def cached_reply(text: str = "4", *, at: float = 1.5) -> CachedReply:
    return CachedReply(reply=Reply(text=text), identity="v2", at=at)


def without_mark(reply: CachedReply | None) -> CachedReply | None:
    """Return the reply as it was put; a cached one differs only in its mark."""
    assert reply is None or reply.reply.cached
    return reply and replace(reply, reply=replace(reply.reply, cached=False))


def got(cache: ReplyCache, key: str = KEY) -> CachedReply | None:
    return without_mark(asyncio.run(cache.get(key)))


def after(opening: Open, *puts: CachedReply, overwrite: bool = False) -> CachedReply | None:
    """Return the cached reply of a later session."""
    for cached in puts:
        with opening() as cache:
            cache.put(KEY, cached, overwrite=overwrite)
    with opening() as cache:
        return got(cache)


def test_an_unknown_key_returns_none(opening):
    with opening() as cache:
        assert got(cache) is None


def test_a_cached_reply_keeps_all_fields_its_identity_and_its_time(opening):
    cached = CachedReply(reply=WHOLE, identity="https://host/v1#v2 Ω", at=1_700_000_000.25)

    assert after(opening, cached) == cached


def test_a_reply_is_returned_after_an_earlier_miss(opening):
    with opening() as cache:
        assert got(cache) is None
        cache.put(KEY, cached_reply())

        assert got(cache) == cached_reply()
        assert got(cache, OTHER) is None


def test_the_first_reply_of_a_key_is_kept(opening):
    with opening() as cache:
        cache.put(KEY, cached_reply("first"))
        cache.put(KEY, cached_reply("second"))
        at_once = got(cache)

    assert at_once == cached_reply("first")
    assert after(opening, cached_reply("third")) == cached_reply("first")


def test_two_sessions_that_write_one_key_agree_on_the_first_reply(opening):
    with opening() as cached, opening() as other:
        cached.put(KEY, cached_reply("one"))
        other.put(KEY, cached_reply("other"))

    with opening() as later, opening() as again:
        assert got(later) == got(again)
        assert got(later) in (cached_reply("one"), cached_reply("other"))


def test_overwrite_replaces_a_cached_reply(opening):
    assert after(
        opening, cached_reply("old"), cached_reply("older", at=1.0), cached_reply("new", at=9.0), overwrite=True
    ) == cached_reply("new", at=9.0)
    with opening() as cache:
        cache.put(KEY, cached_reply("once more"), overwrite=True)
        cache.put(KEY, cached_reply("last"), overwrite=True)

        assert got(cache) == cached_reply("last")


@pytest.mark.parametrize(
    "value", [(1, 2), {1: "one"}, float("nan"), {2, 3}, object()], ids=lambda value: type(value).__name__
)
def test_a_reply_that_json_would_change_is_not_cached(opening, value):
    assert after(opening, CachedReply(reply=Reply(text="4", value=value), identity="v2", at=1.0)) is None


def test_concurrent_reads_each_return_their_own_reply(opening):
    keys = [f"{number:064d}" for number in range(1200)]

    async def everything(cache: ReplyCache) -> list[CachedReply | None]:
        return await asyncio.gather(*(cache.get(key) for key in keys))

    with opening() as cache:
        for number, key in enumerate(keys):
            if number % 3:
                cache.put(key, cached_reply(str(number)))
    with opening() as cache:
        reply = asyncio.run(everything(cache))
    assert [without_mark(entry) for entry in reply] == [
        cached_reply(str(number)) if number % 3 else None for number in range(1200)
    ]


def test_a_cancelled_read_does_not_block_others(opening):
    async def patient_and_not(cache: ReplyCache) -> CachedReply | None:
        impatient = asyncio.create_task(cache.get(KEY))
        await asyncio.sleep(0)
        impatient.cancel()
        return await cache.get(KEY)

    after(opening, cached_reply())
    with opening() as cache:
        assert without_mark(asyncio.run(patient_and_not(cache))) == cached_reply()


def test_an_adapter_is_recognised_by_its_settings_once_it_has_replies(opening):
    v2 = KnownAdapter(settings="s" * 64, identity="v2", files={"train.jsonl": "f" * 64})
    with opening() as cache:
        cache.remember_adapter(v2)
    with opening() as cache:
        unasked = cache.find_adapter(v2.settings)
        cache.remember_adapter(v2)
        got(cache)
    with opening() as cache:
        recognised = cache.find_adapter(v2.settings)
        cache.remember_adapter(KnownAdapter(settings=v2.settings, identity="v2 trained again"))
        got(cache)
    with opening() as cache:
        now = cache.find_adapter(v2.settings)
        stranger = cache.find_adapter("t" * 64)

    assert (recognised, stranger) == (v2, None)
    assert now == KnownAdapter(settings=v2.settings, identity="v2 trained again")
    assert unasked is None


# -- in a database ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", ["", "not JSON", "[]", "null", '{"text":5}', '{"latency_s":1}', '{"text":"","latency_s":"x"}']
)
def test_an_unreadable_reply_is_a_miss_and_is_replaced(opening, damage):
    after(opening, cached_reply())
    with opening() as cache:
        if isinstance(cache, MemoryReplies):
            cache.rows[KEY] = (damage, "v2", 1.0)
        else:
            spoil(cache, damage)
    with opening() as cache:
        before = got(cache)
        cache.put(KEY, cached_reply("new"))

    assert before is None
    assert after(opening) == cached_reply("new")


def spoil(cache: Any, damage: str) -> None:
    cache._rows._store().execute("UPDATE reply_cache SET reply = :damage, text = NULL", damage=damage)
