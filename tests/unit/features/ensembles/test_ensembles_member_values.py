"""Values of an ensemble's reply, and scores of its members."""

from __future__ import annotations

import math

import pytest

from pytest_crucible import Reply, Sample
from pytest_crucible.features.ensembles.member_scores import ensemble_facts, ensemble_values, member_score
from pytest_crucible.metrics import (
    NotApplicable,
    exact_match,
    latency_s,
    metric,
    output_tokens,
)

SAMPLE = Sample(id="a", input="2 + 2", expected="4")


@metric(bounds=(0, 5), direction="lower")
def errors(reply, sample):
    return 1


def test_ensembles_have_facts_for_consensus_cost_answers_and_member_scores():
    facts = ensemble_facts([exact_match.facts, latency_s.facts], ["v1", "v2"])

    assert [one.name for one in facts] == [
        "consensus", "cost_usd", "answer[v1]", "answer[v2]", "exact_match[v1]", "exact_match[v2]", "latency_s[v1]",
        "latency_s[v2]",
    ]  # fmt: skip
    assert all(one.of_ensemble for one in facts)
    by_name = {one.name: one for one in facts}
    assert (by_name["consensus"].low, by_name["consensus"].high) == (0.0, 1.0)
    assert (by_name["latency_s[v1]"].direction, by_name["latency_s[v1]"].kind) == ("lower", "positive")
    assert by_name["answer[v1]"].kind == "text"


def test_a_metric_of_the_suite_with_that_name_is_kept():
    own = metric(kind="binary", name="consensus")(lambda reply, sample: True)

    assert "consensus" not in [one.name for one in ensemble_facts([own.facts], ["v1"])]


def test_without_members_there_are_no_facts():
    assert ensemble_facts([exact_match.facts], []) == ()


def test_a_reply_has_values_of_consensus_cost_and_answers():
    members = {"v1": Reply(text="It is 4", value="4"), "v2": Reply(text="?", value=None)}
    reply = Reply(text="It is 4", consensus=1.0, cost_usd=0.5, members=members)

    assert list(ensemble_values(reply)) == [
        ("consensus", 1.0, ""),
        ("cost_usd", 0.5, ""),
        ("answer[v1]", "4", ""),
        ("answer[v2]", None, "the member abstained"),
    ]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("abstained", "no member gave an answer"),
        ("tied", "the best answers are equally good"),
        ("divided", "the members do not agree enough"),
        ("stop", ""),
    ],
)
def test_a_consensus_without_an_answer_has_a_reason(finish, reason):
    assert list(ensemble_values(Reply(text="", finish=finish, consensus=0.0))) == [("consensus", 0.0, reason)]


def test_unknown_values_are_not_observed():
    assert list(ensemble_values(Reply(text="4"))) == []


def test_a_reply_of_a_member_is_scored_like_any_other():
    assert member_score(exact_match, Reply(text="4"), SAMPLE) is True


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_truncated_member_has_the_worst_value(finish):
    cut = Reply(text="4", finish=finish, output_tokens=3)

    assert member_score(exact_match, cut, SAMPLE) is False
    assert member_score(errors, cut, SAMPLE) == 5.0
    assert isinstance(member_score(output_tokens, cut, SAMPLE), NotApplicable)
    assert math.isinf(output_tokens.facts.high)
