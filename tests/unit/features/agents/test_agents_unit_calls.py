"""The outcome of a unit whose agent has sent calls: what is lost, what is a failure, and what was spent."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_crucible.features.agents.unit_calls import Ended, UnitCalls, judge_outcome, score_spent, with_totals
from pytest_crucible.records import ModelCall, Outcome, Reply, Unit
from pytest_crucible.records.errors import BackendError, Refused, Spent


def call(reply: Reply | None = None, member: str = "") -> ModelCall:
    return ModelCall("hello", is_json=False, request=1, parameters=None, system="", reply=reply, judge=member)


def reply_of(tokens: int | None = 2, cost: float | None = 0.5) -> Reply:
    return Reply(text="hi", input_tokens=tokens, output_tokens=1, cost_usd=cost)


def outcome(*calls: ModelCall, **facts) -> Outcome:
    return Outcome(Unit(0, 0, 0, 0), calls=list(calls), **facts)


def test_a_reply_has_the_sums_of_all_calls_those_of_roles_included():
    total = with_totals(
        Reply(text="x"), [call(reply_of()), call(reply_of(), "role:planner"), call(reply_of(9), "judge:j")]
    )

    assert (total.input_tokens, total.output_tokens, total.cost_usd) == (4, 2, 1.0)


@pytest.mark.parametrize("unknown", [call(), call(reply_of(None, None))])
def test_a_sum_is_unknown_where_one_call_is(unknown):
    total = with_totals(Reply(text="x"), [call(reply_of()), unknown])

    assert (total.input_tokens, total.cost_usd) == (None, None)


def test_an_agent_that_failed_is_scored_by_what_it_has_spent_as_far_as_that_is_asked_and_known():
    failed, cut = outcome(call(reply_of())), outcome(call(reply_of()), call())

    score_spent(failed, {"cost_usd", "total_tokens", "tokens", "calls"})
    score_spent(cut, {"cost_usd", "total_tokens", "tokens", "calls"})

    assert failed.scores == {"cost_usd": 0.5, "total_tokens": 3, "tokens": 3}
    assert cut.scores == {}


@pytest.mark.parametrize(("error", "reason"), [(BackendError("down"), "error"), (Spent("no money"), "budget")])
def test_a_lost_reply_loses_the_unit_whatever_its_function_made_of_it(error, reason):
    for facts in ({"reply": reply_of()}, {"failure": "assertion"}, {"skipped": True}):
        judged = outcome(call(reply_of()), **facts)

        judge_outcome(judged, error, None)

        assert (judged.lost, judged.detail, judged.reply, judged.failure, judged.skipped) == (
            reason,
            str(error),
            None,
            None,
            False,
        )


def test_a_refused_request_stops_the_experiment():
    with pytest.raises(Refused, match="no such model"):
        judge_outcome(outcome(), Refused("no such model"), None)


def test_an_agent_that_does_not_end_has_failed_also_where_its_function_raised():
    judged = outcome(call(reply_of()), lost="error")

    judge_outcome(judged, None, 3)

    assert (judged.lost, judged.failure) == (None, "assertion")
    assert judged.detail == "the agent had not ended after 3 calls (max_calls)"


def test_a_function_that_returns_nothing_has_the_last_reply_of_the_arm_and_not_of_a_role():
    judged = outcome(call(Reply(text="own")), call(Reply(text="other"), "role:planner"))

    judge_outcome(judged, None, None)

    assert judged.reply is not None
    assert judged.reply.text == "own"


def calls_of_a_unit(most: int | None = None) -> UnitCalls:
    bound: Any = SimpleNamespace(sample=SimpleNamespace(id="q1"))
    return UnitCalls(bound, most, {})


def arm(*, recorded: bool) -> Any:
    return SimpleNamespace(name="v1", recorded=recorded)


def test_a_recorded_arm_replies_once_whatever_roles_were_asked_before():
    calls = calls_of_a_unit()

    numbers = [calls.begin(arm(recorded=False), "planner"), calls.begin(arm(recorded=True), "")]

    assert numbers == [1, 2]
    with pytest.raises(Refused, match="recorded and has no reply to call 2 of sample q1; use an adapter"):
        calls.begin(arm(recorded=True), "")


def test_a_unit_answers_as_many_calls_as_it_may_send_and_blames_the_arm_from_the_first_on():
    calls = calls_of_a_unit(1)
    assert not calls.blames_arm()

    calls.begin(arm(recorded=False), "")

    assert calls.blames_arm()
    with pytest.raises(Ended, match="this sample has sent 1 call, as many as max_calls=1 allows"):
        calls.begin(arm(recorded=False), "")
    assert calls.is_over


def test_calls_in_flight_together_are_marked_and_those_one_after_the_other_are_not():
    async def send() -> list[bool]:
        unit = outcome()
        calls = calls_of_a_unit()
        calls.bound = SimpleNamespace(outcome=unit, loop=SimpleNamespace(loop=asyncio.get_running_loop()))
        go_on = asyncio.Event()

        async def reply(wait: bool) -> Reply:
            if wait:
                await go_on.wait()
            return reply_of()

        await calls.start(calls.send(lambda: reply(False), {"number": 1}))
        first = calls.start(calls.send(lambda: reply(True), {"number": 2}))
        await asyncio.sleep(0)
        await calls.start(calls.send(lambda: reply(False), {"number": 3}))
        go_on.set()
        await first
        rows = sorted(unit.feature_rows["endpoint_calls"], key=lambda row: row["number"])
        return [row["is_parallel"] for row in rows]

    assert asyncio.run(send()) == [False, False, True]


def test_a_closed_unit_answers_nothing_more_and_cancels_what_is_in_flight():
    async def close() -> tuple[dict[str, Any], bool]:
        calls = calls_of_a_unit()
        calls.bound = SimpleNamespace(
            outcome=outcome(),
            loop=SimpleNamespace(loop=asyncio.get_running_loop()),
            experiment=SimpleNamespace(metrics=()),
        )
        calls.seats["token"] = "seat"
        calls.tokens.append("token")
        hanging = calls.start(calls.send(lambda: asyncio.sleep(60, reply_of()), {"number": 1}))
        await asyncio.sleep(0)
        await calls.close()
        return dict(calls.seats), hanging.cancelled()

    assert asyncio.run(close()) == ({}, True)
