"""What every ReplyCache keeps: in memory, in an SQLite file and in PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from memory_replies import MemoryReplies
from sqlalchemy import update

from pytest_crucible.backends.cache import CachedReply, KnownAdapter, ReplyCache
from pytest_crucible.records import Reply
from pytest_crucible.store import schema
from pytest_crucible.store.replies import StoredReplies
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


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same cache again and again, as one session after another does."""
    if request.param == "memory":
        memory = MemoryReplies()
        return lambda: contextlib.nullcontext(memory)
    location = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgresql")
    return lambda: stored(location)


@contextlib.contextmanager
def stored(location: str) -> Iterator[StoredReplies]:
    store = RunStore(location)
    writer = store.writer()
    replies = StoredReplies(lambda: store, lambda: writer)
    yield replies
    replies.close()
    writer.close()
    store.close()


def kept(text: str = "4", *, at: float = 1.5) -> CachedReply:
    return CachedReply(reply=Reply(text=text), identity="v2", at=at)


def unmarked(found: CachedReply | None) -> CachedReply | None:
    """As it was put: what is found says that it is cached, and nothing else has changed."""
    assert found is None or found.reply.cached
    return found and replace(found, reply=replace(found.reply, cached=False))


def got(cache: ReplyCache, key: str = KEY) -> CachedReply | None:
    return unmarked(asyncio.run(cache.get(key)))


def after(opening: Open, *puts: CachedReply, overwrite: bool = False) -> CachedReply | None:
    """What a later session finds."""
    for one in puts:
        with opening() as cache:
            cache.put(KEY, one, overwrite=overwrite)
    with opening() as cache:
        return got(cache)


def test_missing_reply_is_none(opening):
    with opening() as cache:
        assert got(cache) is None


def test_stored_reply_keeps_identity_and_time(opening):
    one = CachedReply(reply=WHOLE, identity="https://host/v1#v2 Ω", at=1_700_000_000.25)

    assert after(opening, one) == one


def test_reply_is_readable_before_it_is_durable(opening):
    with opening() as cache:
        cache.put(KEY, kept())

        assert got(cache) == kept()
        assert got(cache, OTHER) is None


def test_reply_is_readable_after_an_earlier_miss(opening):
    with opening() as cache:
        assert got(cache) is None
        cache.put(KEY, kept())

        assert got(cache) == kept()
        assert got(cache, OTHER) is None


def test_first_reply_of_a_key_counts(opening):
    with opening() as cache:
        cache.put(KEY, kept("first"))
        cache.put(KEY, kept("second"))
        at_once = got(cache)

    assert at_once == kept("first")
    assert after(opening, kept("third")) == kept("first")


def test_concurrent_sessions_agree_on_the_first_reply(opening):
    with opening() as one, opening() as other:
        one.put(KEY, kept("one"))
        other.put(KEY, kept("other"))

    with opening() as later, opening() as again:
        assert got(later) == got(again)
        assert got(later) in (kept("one"), kept("other"))


def test_overwrite_replaces_the_reply(opening):
    assert after(opening, kept("old"), kept("older", at=1.0), kept("new", at=9.0), overwrite=True) == kept(
        "new", at=9.0
    )
    with opening() as cache:
        cache.put(KEY, kept("once more"), overwrite=True)
        cache.put(KEY, kept("last"), overwrite=True)

        assert got(cache) == kept("last")


@pytest.mark.parametrize(
    "value", [(1, 2), {1: "one"}, float("nan"), {2, 3}, object()], ids=lambda value: type(value).__name__
)
def test_reply_that_does_not_survive_storing_is_skipped(opening, value):
    assert after(opening, CachedReply(reply=Reply(text="4", value=value), identity="v2", at=1.0)) is None


def test_concurrent_lookups_get_their_own_replies(opening):
    keys = [f"{number:064d}" for number in range(1200)]

    async def everything(cache: ReplyCache) -> list[CachedReply | None]:
        return await asyncio.gather(*(cache.get(key) for key in keys))

    with opening() as cache:
        for number, key in enumerate(keys):
            if number % 3:
                cache.put(key, kept(str(number)))
    with opening() as cache:
        found = asyncio.run(everything(cache))
    assert [unmarked(one) for one in found] == [kept(str(number)) if number % 3 else None for number in range(1200)]


def test_cancelled_lookup_does_not_block_others(opening):
    async def patient_and_not(cache: ReplyCache) -> CachedReply | None:
        impatient = asyncio.create_task(cache.get(KEY))
        await asyncio.sleep(0)
        impatient.cancel()
        return await cache.get(KEY)

    after(opening, kept())
    with opening() as cache:
        assert unmarked(asyncio.run(patient_and_not(cache))) == kept()


def test_adapter_is_recorded_at_its_first_lookup(opening):
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
def test_unreadable_reply_counts_as_absent(opening, damage):
    after(opening, kept())
    with opening() as cache:
        if isinstance(cache, MemoryReplies):
            cache.rows[KEY] = (damage, "v2", 1.0)
        else:
            spoil(cache, damage)
    with opening() as cache:
        before = got(cache)
        cache.put(KEY, kept("new"))

    assert before is None
    assert after(opening) == kept("new")


def spoil(cache: Any, damage: str) -> None:
    with cache._store().engine.begin() as connection:
        connection.execute(update(schema.reply_cache).values(reply=damage, text=None))
