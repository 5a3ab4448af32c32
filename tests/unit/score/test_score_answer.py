"""The reply as metrics see it."""

from __future__ import annotations

from typing import Any

import pytest
from judging import judged_at_once

from pytest_crucible import Reply, Sample, metric
from pytest_crucible.features.cns3.named_metrics import strict_metric
from pytest_crucible.metrics import exact_match, final_number_matches
from pytest_crucible.records import Outcome, Reasoning, Unit
from pytest_crucible.score import scored_reply

SAMPLE = Sample(id="a", input="2 + 2", expected="4")
DRAFT = "<think>CLAIM[c1]: Tea harms.\nPerhaps not.</think>\nCLAIM[c1]: Tea helps."


def reply_to_metric(reply: Reply, reasoning: Reasoning = "strip") -> Reply:
    """The reply that a metric is called with."""
    replies: list[Reply] = []

    @metric(kind="binary")
    def watching(reply: Reply, sample: Sample) -> bool:
        replies.append(reply)
        return True

    judged_at_once(Outcome(Unit(0, 0, 0, 0), reply=reply), [watching], SAMPLE, passed=False, reasoning=reasoning)
    return replies[0]


def values(metrics: Any, reply: Reply, sample: Sample = SAMPLE) -> dict[str, Any]:
    observations, lost = judged_at_once(Outcome(Unit(0, 0, 0, 0), reply=reply), metrics, sample, passed=False)
    assert not lost
    return {observation.metric: observation.value for observation in observations}


def test_metrics_score_the_answer():
    reply = Reply(text="<think>Is it A, or 5?</think>\n4")

    assert values([exact_match, final_number_matches], reply) == {"exact_match": True, "final_number_matches": True}


def test_the_claims_of_a_draft_do_not_count():
    sample = Sample(id="a", input="", expected="CLAIM[c1]: Tea helps.")

    assert reply_to_metric(Reply(text=DRAFT)).text == "CLAIM[c1]: Tea helps."
    assert values([strict_metric("schema_compliance")], Reply(text=DRAFT), sample) == {"schema_compliance": True}


def test_reasoning_is_read_from_text_and_field_alike():
    assert reply_to_metric(Reply(text="<think>2 + 2</think>4")) == reply_to_metric(Reply(text="4", reasoning="2 + 2"))


def test_reasoning_can_be_kept():
    reply = Reply(text="<think>2 + 2</think>4")

    assert reply_to_metric(reply, "keep") is reply


def test_a_reply_without_reasoning_is_the_same_object():
    reply = Reply(text="4", reasoning="2 + 2", value=4)

    assert scored_reply(reply, "strip") is reply


@pytest.mark.parametrize("text", ["<think>It is 4", "<think>It is 4</think>"])
def test_reasoning_without_an_answer_is_an_empty_answer(text):
    assert reply_to_metric(Reply(text=text)).text == ""
    assert values([exact_match], Reply(text=text)) == {"exact_match": False}


def test_a_returned_string_is_stripped():
    text = "<think>2 + 2</think>4"
    reply = reply_to_metric(Reply(text=text, value=text))

    assert (reply.text, reply.value) == ("4", "4")


def test_other_values_do_not_change():
    reply = Reply(text="['a</think>b']", value=["a</think>b"])

    assert reply_to_metric(reply) is reply


def test_members_and_alternatives_are_stripped():
    thinking = Reply(text="<think>2 + 2</think>4")
    whole = scored_reply(
        Reply(text="4", members={"v1": Reply(text=thinking.text, value="4")}, alternatives=(thinking,)), "strip"
    )

    assert (whole.members["v1"].text, whole.members["v1"].value) == ("4", "4")
    assert whole.alternatives[0].text == "4"
