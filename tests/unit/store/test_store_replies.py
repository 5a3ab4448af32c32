"""Reading the reply cache: batches of keys, absent keys, and encoded replies."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from strategies import record

from pytest_crucible.records import Reply
from pytest_crucible.store.database import BATCH_SIZE
from pytest_crucible.store.replies import MOST, AbsentKeys, BatchReader, decode_reply, encode_reply


@given(record(Reply))
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_every_reply_comes_back_as_it_was(reply):
    text = encode_reply(reply)

    assert text is not None
    assert text.isascii()
    assert decode_reply(text) == reply


def test_only_what_a_reply_says_is_written():
    assert encode_reply(Reply(text="")) == '{"text":""}'


def test_what_would_come_back_as_another_is_not_written():
    assert encode_reply(Reply(text="", latency_s=math.nan)) is None
    assert encode_reply(Reply(text="", value=(1, 2))) is None


def test_fields_of_another_version_do_not_matter():
    assert decode_reply('{"text":"4","mood":"good"}') == Reply(text="4")


def test_nothing_is_absent_before_it_has_learned():
    assert "a" not in AbsentKeys()


def test_what_was_there_and_what_was_added_may_be_there_and_the_rest_is_not():
    absent = AbsentKeys()
    absent.add("early")
    absent.learn(["a", "b"])
    absent.add("late")

    assert [key for key in ("a", "b", "early", "late", "c") if key in absent] == ["c"]


def test_it_learns_once():
    absent = AbsentKeys()
    absent.learn(["a"])
    absent.learn(["b"])

    assert "b" in absent


def test_of_more_keys_than_it_holds_it_knows_nothing():
    absent = AbsentKeys()
    absent.learn(map(str, range(MOST + 1)))

    assert "x" not in absent


def test_nor_when_more_are_added():
    absent = AbsentKeys()
    absent.learn(())
    for number in range(MOST):
        absent.add(str(number))
    assert "x" in absent

    absent.add("one more")
    assert "x" not in absent
    absent.learn(())
    assert "x" not in absent


class Shelf:
    """Finds a key's length; holds the first batch back until it may go on."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.threads: set[str] = set()
        self.go_on = threading.Event()

    def __call__(self, keys: list[str]) -> dict[str, int]:
        self.batches.append(keys)
        self.threads.add(threading.current_thread().name)
        assert self.go_on.wait(60)
        return {key: len(key) for key in keys if key}


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def reader(shelf: Shelf) -> Iterator[BatchReader[int]]:
    opened = BatchReader(shelf)
    yield opened
    shelf.go_on.set()
    opened.close()
    opened.close()


async def after_the_first(reader: BatchReader[int], shelf: Shelf, many: int) -> list[int | None]:
    """Ask one, and the others while it is looked up."""
    first = asyncio.create_task(reader.find("first"))
    while not shelf.batches:
        await asyncio.sleep(0.001)
    others = [asyncio.create_task(reader.find("x" * (number % 7))) for number in range(many)]
    await asyncio.sleep(0)
    shelf.go_on.set()
    return [await first, *await asyncio.gather(*others)]


@pytest.mark.parametrize(("many", "sizes"), [(3, [3]), (BATCH_SIZE, [BATCH_SIZE]), (BATCH_SIZE + 2, [BATCH_SIZE, 2])])
def test_what_is_asked_meanwhile_is_one_batch(reader, shelf, many, sizes):
    result = asyncio.run(after_the_first(reader, shelf, many))

    assert result == [5, *(number % 7 or None for number in range(many))]
    assert [len(batch) for batch in shelf.batches] == [1, *sizes]
    assert shelf.threads == {"crucible-reader"}


def test_the_loop_goes_on_while_a_database_thinks(reader, shelf):
    async def meanwhile() -> int:
        waiting = asyncio.create_task(reader.find("first"))
        turns = 0
        while not shelf.batches or turns < 100:
            await asyncio.sleep(0)
            turns += 1
        shelf.go_on.set()
        await waiting
        return turns

    assert asyncio.run(meanwhile()) >= 100


def test_an_error_reaches_everybody_in_the_batch_and_the_next_is_tried():
    answers = iter([OSError("gone"), {"a": 1}])

    def look_up(keys: list[str]) -> dict[str, int]:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    reader = BatchReader(look_up)
    with pytest.raises(OSError, match="gone"):
        asyncio.run(reader.find("a"))

    assert asyncio.run(reader.find("a")) == 1
    reader.close()


def test_a_closed_loop_does_not_block_others(reader, shelf):
    async def give_up() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.find("first"), 0.01)

    asyncio.run(give_up())
    shelf.go_on.set()

    assert asyncio.run(reader.find("later")) == 5


def test_one_that_was_asked_nothing_has_no_thread(reader):
    reader.close()

    assert "crucible-reader" not in {thread.name for thread in threading.enumerate()}
