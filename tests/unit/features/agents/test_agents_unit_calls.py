"""The outcome of a unit whose agent has sent calls: what is lost, what is a failure, and what was spent."""

from __future__ import annotations

import pytest

from pytest_crucible.features.agents.unit_calls import judge_outcome, score_spent, with_totals
from pytest_crucible.records import ModelCall, Outcome, Reply, Unit
from pytest_crucible.records.errors import BackendError, Refused, Spent


def call(reply: Reply | None = None, member: str = "") -> ModelCall:
    return ModelCall("hello", is_json=False, request=1, parameters=None, system="", reply=reply, judge=member)


def answered(tokens: int | None = 2, cost: float | None = 0.5) -> Reply:
    return Reply(text="hi", input_tokens=tokens, output_tokens=1, cost_usd=cost)


def outcome(*calls: ModelCall, **facts) -> Outcome:
    return Outcome(Unit(0, 0, 0, 0), calls=list(calls), **facts)


def test_a_reply_has_the_sums_of_all_calls_those_of_roles_included():
    total = with_totals(
        Reply(text="x"), [call(answered()), call(answered(), "role:planner"), call(answered(9), "judge:j")]
    )

    assert (total.input_tokens, total.output_tokens, total.cost_usd) == (4, 2, 1.0)


@pytest.mark.parametrize("unknown", [call(), call(answered(None, None))])
def test_a_sum_is_unknown_where_one_call_is(unknown):
    total = with_totals(Reply(text="x"), [call(answered()), unknown])

    assert (total.input_tokens, total.cost_usd) == (None, None)


def test_an_agent_that_failed_is_scored_by_what_it_has_spent_as_far_as_that_is_asked_and_known():
    failed, cut = outcome(call(answered())), outcome(call(answered()), call())

    score_spent(failed, {"cost_usd", "total_tokens", "tokens", "calls"})
    score_spent(cut, {"cost_usd", "total_tokens", "tokens", "calls"})

    assert failed.scores == {"cost_usd": 0.5, "total_tokens": 3, "tokens": 3}
    assert cut.scores == {}


@pytest.mark.parametrize(("error", "reason"), [(BackendError("down"), "error"), (Spent("no money"), "budget")])
def test_a_lost_reply_loses_the_unit_whatever_its_function_made_of_it(error, reason):
    for facts in ({"reply": answered()}, {"failure": "assertion"}, {"skipped": True}):
        judged = outcome(call(answered()), **facts)

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
    judged = outcome(call(answered()), lost="error")

    judge_outcome(judged, None, 3)

    assert (judged.lost, judged.failure) == (None, "assertion")
    assert judged.detail == "the agent had not ended after 3 calls (max_calls)"


def test_a_function_that_returns_nothing_has_the_last_reply_of_the_arm_and_not_of_a_role():
    judged = outcome(call(Reply(text="own")), call(Reply(text="other"), "role:planner"))

    judge_outcome(judged, None, None)

    assert judged.reply is not None
    assert judged.reply.text == "own"
