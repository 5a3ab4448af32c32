"""A long text is in the database once, however many rows have it: in an SQLite file and in PostgreSQL."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from plan_builders import plan_of

from pytest_crucible.backends.cache import CachedReply
from pytest_crucible.records import Draws, ModelCall, Outcome, Reply, Sample, Unit
from pytest_crucible.records.redaction import hider
from pytest_crucible.store import tables
from pytest_crucible.store.conversations import load_conversations, load_exchanges
from pytest_crucible.store.outcomes import reply_texts
from pytest_crucible.store.prune import clear, find_prunable
from pytest_crucible.store.redactors import SHORTEST
from pytest_crucible.store.replies import StoredReplies
from pytest_crucible.store.reused_outcomes import copy_outcomes
from pytest_crucible.store.runs import RunStore

LONG, THOUGHTS = "the answer, at length, Ω " * 40, "hm, let me think " * 40
SAMPLE = Sample(id="q0", input="why?")
PLAN = plan_of("v2")
FACTS = {"started": "2026-01-01T00:00:00+00:00", "seed": 1, "alpha": 0.05, "correction": "holm", "environment": {}}


@pytest.fixture
def store(location: str) -> Iterator[RunStore]:
    opened = RunStore(location)
    yield opened
    opened.close()


@contextmanager
def caching(store: RunStore) -> Iterator[StoredReplies]:
    writer = store.writer()
    replies = StoredReplies(lambda: store, lambda: writer)
    yield replies
    replies.close()
    writer.close()


def cache(store: RunStore, reply: Reply, key: str = "a") -> None:
    with caching(store) as replies:
        replies.put(key * 64, CachedReply(reply=reply, identity="i", at=1.0))


def load_cached(store: RunStore, key: str = "a") -> Reply | None:
    with caching(store) as replies:
        response = asyncio.run(replies.get(key * 64))
    return response and replace(response.reply, cached=False, paid_by="")


def begin(store: RunStore, run: str) -> tuple[int, int]:
    store.begin_run(run, **FACTS)
    experiment = store.add_experiment(run, PLAN, [SAMPLE])
    return experiment, store.add_arm(experiment, 0, "v2", "same")


def write(store: RunStore, arm: int, *replies: Reply) -> None:
    """Store a unit with a call for each reply. The last one is scored."""
    calls = [
        ModelCall(text="why?", is_json=False, request=number, parameters=None, system="", reply=reply)
        for number, reply in enumerate(replies, start=1)
    ]
    writer = store.writer()
    writer.add(Outcome(Unit(0, 0, 0, 0), reply=replies[-1], sample=SAMPLE, calls=calls), arm, [], [])
    writer.close()


def stored_texts(store: RunStore) -> list[str]:
    return sorted(store.scalars("SELECT body FROM texts"))


def collect(store: RunStore, *, keep_runs: int, cache_days: float | None) -> None:
    at = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    clear(store, find_prunable(store, at=at, keep_runs=keep_runs, keep_days=1, cache_days=cache_days))


def test_cache_two_runs_and_a_copied_arm_share_one_text(store):
    reply = Reply(text=LONG, reasoning=THOUGHTS)
    cache(store, reply)
    _, first = begin(store, "run0")
    write(store, first, reply)
    _, rerun = begin(store, "run1")
    write(store, rerun, reply)
    _, copy = begin(store, "run2")
    copy_outcomes(store, rerun, copy, source_run="run1", draws=Draws())

    assert stored_texts(store) == sorted([LONG, THOUGHTS])


def test_every_reader_gets_the_whole_text(store):
    draft = "a draft that is not scored " * 10
    reply = Reply(text=LONG, reasoning=THOUGHTS)
    cache(store, reply)
    experiment, arm = begin(store, "run0")
    write(store, arm, Reply(text=draft), reply)

    assert load_cached(store) == reply
    assert reply_texts(store, experiment, 0, [0]) == {0: LONG}
    [exchange] = load_exchanges(store, experiment, PLAN, [0])
    assert [reply.text for reply in exchange.replies[0]] == [LONG]
    [talk] = load_conversations(store, experiment, PLAN, 0)
    assert [(call.text, call.reasoning) for call in talk.calls] == [(draft, ""), (LONG, THOUGHTS)]
    table = tables.replies(store, "run0")
    assert [dict(zip(table.columns, row, strict=True))["text"] for row in table.rows] == [LONG]


@pytest.mark.parametrize("text", ["", "4", "x" * (SHORTEST - 1), "x" * SHORTEST, LONG])
def test_a_text_of_any_length_is_loaded_as_it_was_stored(store, text):
    cache(store, Reply(text=text))
    experiment, arm = begin(store, "run0")
    write(store, arm, Reply(text=text))

    assert load_cached(store) == Reply(text=text)
    [exchange] = load_exchanges(store, experiment, PLAN, [0])
    assert [reply.text for reply in exchange.replies[0]] == [text]
    assert stored_texts(store) == [text] * (len(text) >= SHORTEST)


def test_a_text_is_deleted_with_the_last_row_that_refers_to_it(store):
    reply = Reply(text=LONG, reasoning=THOUGHTS)
    cache(store, reply)
    _, arm = begin(store, "run0")
    write(store, arm, reply)

    collect(store, keep_runs=0, cache_days=None)
    assert (stored_texts(store), load_cached(store)) == (sorted([LONG, THOUGHTS]), reply)
    collect(store, keep_runs=0, cache_days=1)
    assert (stored_texts(store), load_cached(store)) == ([], None)


def test_a_run_keeps_its_texts_when_the_cache_loses_them(store):
    reply = Reply(text=LONG)
    cache(store, reply)
    experiment, arm = begin(store, "run0")
    write(store, arm, reply)
    collect(store, keep_runs=1, cache_days=1)

    assert load_cached(store) is None
    assert reply_texts(store, experiment, 0, [0]) == {0: LONG}


def test_a_text_that_was_removed_while_a_sample_ran_is_written_again(store):
    """`crucible gc` in another terminal, after the reply arrived and before its sample is finished."""
    reply = Reply(text=LONG)
    experiment, arm = begin(store, "run0")
    writer = store.writer()
    replies = StoredReplies(lambda: store, lambda: writer)
    replies.put("a" * 64, CachedReply(reply=reply, identity="i", at=1.0))
    writer.flush()
    collect(store, keep_runs=1, cache_days=1)
    assert stored_texts(store) == []
    writer.add(Outcome(Unit(0, 0, 0, 0), reply=reply, sample=SAMPLE), arm, [], [])
    writer.close()
    replies.close()

    assert reply_texts(store, experiment, 0, [0]) == {0: LONG}


@pytest.mark.parametrize("odd", ["nul \0 " + LONG, "half \ud83d " + LONG], ids=["nul", "half"])
def test_a_text_that_no_database_can_store_is_cached_as_it_is(store, odd):
    cache(store, Reply(text=odd, reasoning=odd))

    assert load_cached(store) == Reply(text=odd, reasoning=odd)


def test_a_reply_that_is_not_written_yet_is_returned_whole(store):
    reply = Reply(text=LONG, reasoning=THOUGHTS)
    with caching(store) as replies:
        replies.put("a" * 64, CachedReply(reply=reply, identity="i", at=1.0))
        response = asyncio.run(replies.get("a" * 64))

    assert response is not None
    assert (response.reply.text, response.reply.reasoning) == (LONG, THOUGHTS)


def test_a_cached_reply_without_its_text_is_a_miss_until_rewritten(store):
    cache(store, Reply(text=LONG))
    store.execute("DELETE FROM texts")

    assert load_cached(store) is None
    cache(store, Reply(text=LONG))
    assert load_cached(store) == Reply(text=LONG)


# -- redaction ----------------------------------------------------------------------------------------------------


class CountingRedactor:
    """Notes each text that it redacts."""

    def __init__(self, hide: Callable[[str], str] = str) -> None:
        self.texts: list[str] = []
        self._hide = hide

    def __call__(self, text: str) -> str:
        self.texts.append(text)
        return self._hide(text)


def test_a_reply_is_redacted_once_by_cache_run_and_later_turns(tmp_path):
    redactor = CountingRedactor()
    store = RunStore(str(tmp_path / "runs.db"), redactor)
    draft = Reply(text="<think>" + THOUGHTS + "</think>" + LONG, reasoning=THOUGHTS)
    reply = Reply(text=LONG)
    for key, item in (("a", draft), ("b", reply)):
        cache(store, item, key)
    _, arm = begin(store, "run0")
    turns = [{"role": "user", "content": "why?"}, {"role": "assistant", "content": draft.text}]
    writer = store.writer()
    calls = [
        ModelCall(text="why?", is_json=False, request=1, parameters=None, system="", reply=draft),
        ModelCall(text=json.dumps(turns), is_json=True, request=1, parameters=None, system="", reply=reply),
    ]
    writer.add(Outcome(Unit(0, 0, 0, 0), reply=reply, sample=SAMPLE, calls=calls), arm, [], [])
    writer.close()
    store.close()

    assert [redactor.texts.count(text) for text in (draft.text, THOUGHTS, LONG)] == [1, 1, 1]
    assert not any(LONG in text and text not in (draft.text, LONG) for text in redactor.texts)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(text="the key is\nsk-0123456789abcdefgh"),
        Reply(text="4", reasoning="the key is\nsk-0123456789abcdefgh"),
        Reply(text="4", value={"said": "the key is\nsk-0123456789abcdefgh"}),
        Reply(text="4", value={"\tsk-0123456789abcdefgh": 1}),
        Reply(text="4", model="sk-0123456789abcdefgh"),
    ],
    ids=["text", "reasoning", "value", "name", "model"],
)
def test_a_reply_with_a_key_after_a_line_break_is_not_cached(tmp_path, reply):
    """A line break in JSON is a backslash and a letter, after which no key was recognised."""
    store = RunStore(str(tmp_path / "runs.db"), hider())
    cache(store, reply)

    assert load_cached(store) is None
    store.close()
    assert b"0123456789abcdefgh" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
