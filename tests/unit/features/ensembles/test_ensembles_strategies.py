"""Strategies by which members are queried, in virtual time: requests, seconds, and cancelled members."""

from __future__ import annotations

import asyncio

import pytest
from ensemble_members import ASKED, Saying, make, sure
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import in_virtual_time, run

from pytest_crucible import BackendError, Refused
from pytest_crucible.records import Event, Reply
from pytest_crucible.records.errors import Retryable, Spent

GONE = Retryable("connection refused", kind="connection")
MORE_SURE, LESS_SURE = (-0.01, -0.02), (-1.0, -2.0)


async def time_reply(ensemble):
    """The reply, and how long it took."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    reply = await ensemble.generate(ASKED)
    return reply, loop.time() - started


def request_counts(members):
    return [len(member.requests) for member in members]


def slow(*seconds, reply="4"):
    return [Saying(reply, after=after, identity=f"v{k}") for k, after in enumerate(seconds)]


# -- parallel -------------------------------------------------------------------------------------------------------


def test_parallel_takes_as_long_as_the_slowest():
    members = slow(0.3, 0.1, 0.2)
    reply, took = run(time_reply(make(*members)))

    assert (reply.text, took, reply.latency_s) == ("4", 0.3, pytest.approx(0.3))
    assert request_counts(members) == [1, 1, 1]


def test_events_name_the_member():
    members = slow(0.3, 0.1)
    run(time_reply(make(*members)))
    (first,), (second,) = (member.requests for member in members)

    assert [first.member, second.member, ASKED.member] == ["v1", "v2", ""]
    assert Event.about("request.stop", first, facts={"error": "429"}).facts == {"member": "v1", "error": "429"}
    assert Event.about("vote", first, facts={"member": "the winner"}).facts == {"member": "the winner"}
    assert Event.about("request.stop", ASKED).facts == {}


def test_reported_latency_replaces_the_measured_one():
    reply, took = run(time_reply(make(Saying(Reply(text="4", latency_s=0.1), after=5.0), Saying("4", after=0.2))))

    assert (took, reply.latency_s) == (5.0, pytest.approx(0.2))
    assert [member.latency_s for member in reply.members.values()] == [0.1, pytest.approx(0.2)]


@pytest.mark.parametrize("execution", ["parallel", "sequential"])
def test_lost_member_does_not_abstain(execution):
    reply, _ = run(time_reply(make(GONE, "4", "4", execution=execution)))

    assert (reply.text, reply.consensus, list(reply.members)) == ("4", 1.0, ["v2", "v3"])
    assert reply.lost_members == {"v1": str(GONE)}


def test_too_few_answers_lose_the_sample():
    with pytest.raises(BackendError) as caught:
        run(make(GONE, "4", Retryable("status 503", kind="503")).generate(ASKED))

    assert not isinstance(caught.value, Retryable)
    assert str(caught.value) == ("1 of the 3 members of 'trio' answered, and at least 2 must (v1: connection refused)")


@pytest.mark.parametrize(("min_responses", "answers"), [(1, True), (2, False)])
def test_min_responses_is_respected(min_responses, answers):
    trio = make(GONE, GONE, "4", min_responses=min_responses)

    if answers:
        assert run(trio.generate(ASKED)).text == "4"
    else:
        with pytest.raises(BackendError, match="1 of the 3 members"):
            run(trio.generate(ASKED))


def test_abstentions_count_as_responses():
    reply = run(make("", "", "", normalise="number").generate(ASKED))

    assert (reply.text, reply.finish, reply.consensus) == ("", "abstained", 0.0)


@pytest.mark.parametrize("execution", ["parallel", "sequential", "hedged"])
@pytest.mark.parametrize(
    "error", [Refused("no such model"), Spent("the budget is spent"), RuntimeError("a bug")], ids=repr
)
def test_fatal_error_cancels_other_members(execution, error):
    waiting = Saying("4", after=9.0, identity="slow")
    settings = {"delay_s": 0.1} if execution == "hedged" else {}
    with pytest.raises(type(error), match=str(error)):
        run(make(Saying(error, after=0.2), waiting, execution=execution, **settings).generate(ASKED))

    assert waiting.cancelled == len(waiting.requests) <= 1


@pytest.mark.parametrize("execution", ["parallel", "sequential", "hedged"])
@in_virtual_time
async def test_cancellation_cancels_all_members(execution):
    members = slow(5.0, 5.0, 5.0)
    trio = make(*members, execution=execution, **({"delay_s": 0.5} if execution == "hedged" else {}))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await trio.generate(ASKED)

    assert len(asyncio.all_tasks()) == 1
    assert [member.cancelled for member in members] == request_counts(members)


# -- sequential -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replies", "requests", "settings"),
    [
        (["4", "4", "5"], [1, 1, 0], {}),
        (["4", "5", "5"], [1, 1, 1], {}),
        (["4", "5", "5"], [1, 1, 0], {"vote": "unanimous"}),
        (["4", "4", "5", "6", "7"], [1, 1, 0, 0, 0], {"threshold": 0.9, "min_responses": 2}),
        (["4", "5", "4", "6", "7"], [1, 1, 1, 0, 0], {"threshold": 0.6, "min_responses": 2}),
        (["4", "4", "5", "6", "7"], [1, 1, 1, 1, 0], {"min_responses": 2}),
        (["4", "4", "5", "6", "7"], [1, 1, 1, 1, 1], {"min_responses": 2, "ties": "abstain"}),
        (["4", "", "4"], [1, 1, 1], {"ties": "abstain"}),
        (["4", "", "4"], [1, 1, 0], {}),
        (["4", "5", "5"], [1, 0, 0], {"vote": "weighted", "weights": [3, 1, 1], "min_responses": 1}),
    ],
)
def test_sequential_stops_when_the_vote_is_settled(replies, requests, settings):
    members = [Saying(reply_text, after=0.1, identity=str(k)) for k, reply_text in enumerate(replies)]
    reply, took = run(time_reply(make(*members, execution="sequential", **settings)))

    assert request_counts(members) == requests
    assert took == pytest.approx(0.1 * sum(requests)) == reply.latency_s


@given(
    replies=st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=2, max_size=6),
    rule=st.sampled_from(["majority", "unanimous", "weighted"]),
    ties=st.sampled_from(["first", "abstain", "random"]),
    weights=st.lists(st.integers(1, 3), min_size=6, max_size=6),
)
def test_sequential_and_parallel_agree(replies, rule, ties, weights):
    settings = {"vote": rule, "ties": ties, **({"weights": weights[: len(replies)]} if rule == "weighted" else {})}
    first, other = (
        asyncio.run(make(*replies, execution=how, **settings).generate(ASKED)) for how in ("parallel", "sequential")
    )

    assert (first.text, first.finish) == (other.text, other.finish)


# -- hedged ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replies", "seconds", "delay_s", "text", "took", "requests"),
    [
        (["4", "5"], [0.1, 0.1], 0.2, "4", 0.1, [1, 0]),
        (["first", "second"], [0.3, 0.5], 0.1, "first", 0.3, [1, 1]),
        ([GONE, "4", "5"], [0.1, 0.2, 0.4], 10.0, "4", 0.3, [1, 1, 1]),
        (["", "4", "5"], [0.1, 0.2, 0.4], 10.0, "4", 0.3, [1, 1, 1]),
        (["first", "second"], [0.2, 0.1], 0.1, "first", 0.2, [1, 1]),
    ],
    ids=["quick", "late win", "lost", "abstained", "together"],
)
def test_hedged_first_answer_wins(replies, seconds, delay_s, text, took, requests):
    members = [Saying(reply, after=after) for reply, after in zip(replies, seconds, strict=True)]
    reply, waited = run(time_reply(make(*members, execution="hedged", delay_s=delay_s)))

    assert (reply.text, waited, reply.latency_s) == (text, pytest.approx(took), pytest.approx(took))
    assert (request_counts(members), reply.consensus) == (requests, None)


def test_hedged_cancels_losers():
    members = slow(1.5, 0.02, 9.0)
    reply, took = run(time_reply(make(*members, execution="hedged", delay_s=0.05)))

    assert took == pytest.approx(0.07) == reply.latency_s
    assert (list(reply.members), [member.cancelled for member in members]) == (["v2"], [1, 0, 1])


def test_hedged_abstention_does_not_win():
    members = [Saying("4", after=0.5), Saying("no idea", after=0.1), Saying("", after=0.2)]
    reply, _ = run(time_reply(make(*members, execution="hedged", delay_s=0.0, normalise="number")))

    assert (reply.text, list(reply.members)) == ("4", ["v1", "v2", "v3"])


def test_hedged_without_answers_abstains_or_is_lost():
    assert run(make("", GONE, execution="hedged", delay_s=0.1).generate(ASKED)).finish == "abstained"
    with pytest.raises(BackendError, match="0 of the 2 members of 'trio' answered"):
        run(make(GONE, GONE, execution="hedged", delay_s=0.1).generate(ASKED))


def test_cost_of_a_cancelled_member_is_unknown():
    paid = Reply(text="4", input_tokens=5, output_tokens=3, cost_usd=0.01)
    race = {"execution": "hedged", "delay_s": 0.1}
    alone = run(make(paid, Saying(paid, after=1.0), **race).generate(ASKED))
    raced = run(make(Saying(paid, after=1.0), Saying(paid, after=0.1), **race).generate(ASKED))

    assert (alone.cost_usd, alone.input_tokens) == (0.01, 5)
    assert (raced.cost_usd, raced.input_tokens, raced.output_tokens) == (None, None, None)


# -- cascade --------------------------------------------------------------------------------------------------------


def confident(*texts):
    return [sure(text, *MORE_SURE) for text in texts]


def doubtful(*texts):
    return [sure(text, *LESS_SURE) for text in texts]


@pytest.mark.parametrize(
    ("replies", "settings", "text", "requests"),
    [
        ([*doubtful("4"), *confident("5", "6")], {}, "5", [1, 1, 0]),
        (confident("dear", "cheap", "free"), {"costs": [5, 1, 0]}, "free", [0, 0, 1]),
        ([*doubtful("4", "4"), "5"], {}, "5", [1, 1, 1]),
        (doubtful("4", "4", "5"), {"vote": "majority"}, "4", [1, 1, 1]),
        ([*doubtful("4", "4"), *confident("5")], {"vote": "majority"}, "5", [1, 1, 1]),
        ([GONE, "no idea", *confident("6")], {"normalise": "number"}, "6", [1, 1, 1]),
        ([*confident("4", "5"), "6"], {"min_responses": 2}, "4", [1, 1, 0]),
    ],
    ids=["first confident", "cheapest first", "last counts", "vote", "not outvoted", "abstained and lost", "responses"],
)
def test_cascade_queries_members_until_one_is_confident(replies, settings, text, requests):
    members = [Saying(reply, identity=str(k)) for k, reply in enumerate(replies)]
    reply = run(make(*members, execution="cascade", threshold=0.9, **settings).generate(ASKED))

    assert (reply.text, request_counts(members)) == (text, requests)


def test_consensus_of_a_cascade_is_the_share_of_its_answer():
    replies = [*doubtful("4"), *confident("5", "6")]

    assert run(make(*replies, execution="cascade", threshold=0.9).generate(ASKED)).consensus == 0.5


def test_cascade_needs_log_probabilities():
    with pytest.raises(Refused, match="member 'v1' answers without log-probabilities"):
        run(make("4", "5", execution="cascade", threshold=0.9).generate(ASKED))
