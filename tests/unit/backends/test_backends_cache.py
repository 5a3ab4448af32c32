"""The reply cache wrapper: equal requests are sent once, others are sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from memory_replies import MemoryReplies
from virtual_time import in_event_loop

from pytest_crucible.backends import RecordedBackend, ScriptedBackend, recorded_rows
from pytest_crucible.backends.cache import Cached, CacheOnlyBackend, CachePolicy
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Adapter, Event, Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, Retryable, SpecError, Spent, Uncached

ONE = Request(input="2 + 2", sample="a", repeat=0, parameters={"temperature": 0.7}, experiment="test_sums", arm="v2")


class Model:
    """Notes what it is asked. Each answer is another one."""

    simulated = False

    def __init__(
        self, identity: str = "v2", answer: Callable[[int], Any] = lambda number: Reply(text=str(number))
    ) -> None:
        self.identity = identity
        self.asked: list[Request] = []
        self._answer = answer

    async def generate(self, request: Request) -> Reply:
        self.asked.append(request)
        await asyncio.sleep(0)
        answer = self._answer(len(self.asked))
        if isinstance(answer, BaseException):
            raise answer
        return answer


def with_cache(model: Model, caching: CachePolicy | None = None, events: list[Event] | None = None) -> Cached:
    return Cached(
        model, caching or CachePolicy(replies=MemoryReplies()), [].append if events is None else events.append
    )


def ask_in_turn(backend: Cached, *requests: Request) -> list[Reply]:
    """One after the other."""

    async def all_of_them() -> list[Reply]:
        return [await backend.generate(request) for request in requests]

    return asyncio.run(all_of_them())


def ask_at_once(*pairs: tuple[Cached, Request]) -> list[Any]:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(backend.generate(request) for backend, request in pairs), return_exceptions=True)

    return asyncio.run(all_of_them())


def test_repeated_request_is_answered_from_the_cache():
    model = Model()
    first, again = ask_in_turn(with_cache(model), ONE, ONE)

    assert len(model.asked) == 1
    assert (first.cached, again.cached) == (False, True)
    assert replace(again, cached=False) == first


def test_experiment_and_arm_do_not_matter():
    """A reply that was given to a candidate serves a later baseline."""
    model = Model()
    ask_in_turn(with_cache(model), ONE, replace(ONE, experiment="test_others"), replace(ONE, arm="base"))

    assert len(model.asked) == 1


def test_concurrent_equal_requests_are_sent_once():
    caching = CachePolicy(replies=MemoryReplies())
    model = Model()
    member, arm = with_cache(model, caching), with_cache(model, caching)

    replies = ask_at_once((member, ONE), (arm, replace(ONE, arm="v2 alone")), (arm, ONE))

    assert [reply.text for reply in replies] == ["1", "1", "1"]
    assert sorted(reply.cached for reply in replies) == [False, True, True]
    assert len(model.asked) == 1


def test_error_is_not_shared_with_waiting_requests():
    model = Model(answer=lambda number: Retryable("busy", kind="503") if number == 1 else Reply(text=str(number)))
    backend = with_cache(model)

    first, second, third = ask_at_once((backend, ONE), (backend, ONE), (backend, ONE))

    assert isinstance(first, Retryable)
    assert (second.text, third.text) == ("2", "2")


@in_event_loop
async def test_next_request_is_sent_when_the_first_is_cancelled():
    model = Model()
    backend = with_cache(model)
    first, second = (asyncio.create_task(backend.generate(ONE)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()

    assert (await second).text == "2"


@pytest.mark.parametrize(
    "error", [BackendError("x"), Retryable("x", kind="429"), Spent("x"), Refused("x"), ValueError("x")], ids=repr
)
def test_errors_are_not_cached(error):
    replies = MemoryReplies()
    with pytest.raises(type(error)):
        ask_in_turn(with_cache(Model(answer=lambda number: error), CachePolicy(replies=replies)), ONE)

    assert replies.rows == {}


@pytest.mark.parametrize("finish", ["length", "content_filter", "tool_calls"])
def test_truncated_and_filtered_replies_are_cached(finish):
    model = Model(answer=lambda number: Reply(text="", finish=finish))
    _, again = ask_in_turn(with_cache(model), ONE, ONE)

    assert (again.finish, len(model.asked)) == (finish, 1)


def test_invalid_reply_is_passed_on_and_not_cached():
    model = Model(answer=lambda number: "four")

    assert ask_in_turn(with_cache(model), ONE, ONE) == ["four", "four"]


def test_missing_latency_is_measured():
    first, again = ask_in_turn(with_cache(Model()), ONE, ONE)

    assert first.latency_s is not None
    assert again.latency_s == first.latency_s


def test_request_that_is_not_json_is_never_cached():
    model = Model()
    ask_in_turn(with_cache(model), *[replace(ONE, input=b"\x89PNG")] * 2)

    assert len(model.asked) == 2


def test_hit_event_names_its_unit():
    events: list[Event] = []
    ask_in_turn(with_cache(Model(), events=events), ONE, ONE)

    [event] = events
    assert (event.name, event.experiment, event.arm, event.sample, event.repeat) == (
        "cache.hit",
        "test_sums",
        "v2",
        "a",
        0,
    )
    assert event.at - 60 < event.facts["kept_at"] <= event.at


def test_requests_and_hits_are_counted_by_arm():
    caching = CachePolicy(replies=MemoryReplies())
    ask_in_turn(with_cache(Model(), caching), ONE, ONE, replace(ONE, input=b""), replace(ONE, arm="v1"))

    assert {key: (tally.requests, tally.hits) for key, tally in caching.tallies.items()} == {
        ("test_sums", "v2"): (3, 1),
        ("test_sums", "v1"): (1, 1),
    }


# -- ways to use the cache ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [{"refresh": True}, {"fresh": frozenset({"v2"})}], ids=["all", "this arm"])
def test_refresh_sends_older_replies_again_once(mode):
    replies = MemoryReplies()
    model = Model()
    old = with_cache(model, CachePolicy(replies=replies))
    ask_in_turn(old, ONE)
    [(_, _, kept_at)] = replies.rows.values()
    now = with_cache(model, CachePolicy(replies=replies, begun=kept_at + 1e-6, **mode))

    assert [reply.text for reply in ask_in_turn(now, ONE, ONE)] == ["2", "2"]
    assert ask_in_turn(old, ONE)[0].text == "2"


REPEATABLE = {
    "temperature 0": ({"parameters": {"temperature": 0.0}}, True),
    "seed": ({"parameters": {"temperature": 1.0, "seed": 7}}, True),
    # The repeat, and with it the seed that is sent, may be another one.
    "seed of a later round": ({"parameters": {"seed": 7}, "repeat": 3, "draw": "round 1, repeat 0"}, False),
    "temperature 0.7": ({}, False),
    "unknown temperature": ({"parameters": {}}, False),
}


@pytest.mark.parametrize(("changes", "is_compared"), REPEATABLE.values(), ids=REPEATABLE)
@pytest.mark.parametrize("is_same", [True, False], ids=["same", "other"])
def test_a_refreshed_reply_that_should_repeat_is_compared_with_the_cached_one(changes, is_compared, is_same):
    call = {"id": "call_1", "function": {"name": "add"}}
    model = Model(
        answer=lambda number: Reply(
            text="4" if is_same else str(number), tool_calls=({**call, "id": f"call_{number}"},)
        )
    )
    replies, request = MemoryReplies(), replace(ONE, **changes)
    old = with_cache(model, CachePolicy(replies=replies))
    [first] = ask_in_turn(old, request)
    refreshed, hit = ask_in_turn(
        with_cache(model, CachePolicy(replies=replies, begun=time.time(), refresh=True)), request, request
    )

    assert refreshed.as_before == (is_same if is_compared else None)
    assert (first.as_before, hit.as_before) == (None, None)  # a reply is compared once


def test_refresh_of_one_arm_leaves_others_cached():
    replies = MemoryReplies()
    model = Model()
    ask_in_turn(with_cache(model, CachePolicy(replies=replies)), ONE)
    ask_in_turn(with_cache(model, CachePolicy(replies=replies, begun=9e9, fresh=frozenset({"v1"}))), ONE)

    assert len(model.asked) == 1


def test_cache_only_never_calls_a_model():
    replies = MemoryReplies()
    ask_in_turn(with_cache(Model(), CachePolicy(replies=replies)), ONE)
    caching = CachePolicy(replies=replies, only=True)
    backend = with_cache(CacheOnlyBackend("v2"), caching)

    assert ask_in_turn(backend, ONE)[0].text == "1"
    with pytest.raises(Uncached, match="the reply of 'v2' to sample 'b' is not in the reply cache"):
        ask_in_turn(backend, replace(ONE, sample="b"))
    with pytest.raises(Uncached):
        ask_in_turn(backend, replace(ONE, sample="c", input=b""))
    assert caching.tallies["test_sums", "v2"].missing == {("b", 0), ("c", 0)}


# -- who is cached ------------------------------------------------------------------------------------------------


def stack(backend: Any, **asking: Any) -> Any:
    return wrap_backend(
        backend,
        Adapter(name="v2", backend="mine", asking=asking),
        BackendContext(cache=CachePolicy(replies=MemoryReplies())),
    )


def test_replies_of_no_model_and_of_disabled_caches_are_not_cached():
    scripted = ScriptedBackend(lambda request: "4", identity="s")
    without_cache = wrap_backend(Model(), Adapter(name="v2", backend="mine"), BackendContext())

    for backend in (stack(scripted), stack(scripted, cache=False), stack(Model(), cache=False), without_cache):
        assert not isinstance(backend, Cached)
    assert isinstance(stack(recorded_rows([{"sample_id": "a", "text": "4"}], name="v2")), RecordedBackend)


@pytest.mark.parametrize(
    ("backend", "value", "sentence"),
    [
        (Model(), "yes", "adapter 'v2' has cache = 'yes': write true or false"),
        (
            ScriptedBackend(lambda request: "4", identity="s"),
            True,
            "adapter 'v2' has cache = true, but its replies come from no model*",
        ),
    ],
)
def test_invalid_cache_setting_is_refused(backend, value, sentence):
    with pytest.raises(SpecError, match=sentence):
        stack(backend, cache=value)
