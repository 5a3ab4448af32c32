"""Values of an ensemble's reply, and scores of its members."""

from __future__ import annotations

import math

import pytest
from judging import judged_at_once

from pytest_crucible.features.ensembles.section import ensemble_facts, ensemble_values, member_score, score_members
from pytest_crucible.metrics import NotApplicable, exact_match, latency_s, metric, output_tokens
from pytest_crucible.metrics.models.scorers import current_reply
from pytest_crucible.records import Lost, Observation, Outcome, Reply, Sample, Unit

SAMPLE = Sample(id="a", input="2 + 2", expected="4")
MEMBERS = {"v1": Reply(text="5", value="5"), "v2": Reply(text="4", value="4"), "v3": Reply(text="4", value="4")}
REPLY = Reply(text="4", consensus=2 / 3, cost_usd=0.03, members=MEMBERS)


def member_scores(reply, *metrics, scores=None, **facts):
    outcome = Outcome(Unit(2, 0, 1, 3), reply=reply, scores=scores or {}, **facts)
    observations, lost = judged_at_once(outcome, metrics, SAMPLE, passed=False, further=[score_members])
    assert all(entry.unit == Unit(2, 0, 1, 3) for entry in (*observations, *lost))
    return {observation.metric: observation.value for observation in observations}, lost


def test_consensus_cost_answers_and_scores_of_members_are_observed():
    assert member_scores(REPLY, exact_match) == (
        {
            "exact_match": True, "consensus": 2 / 3, "cost_usd": 0.03, "answer[v1]": "5", "answer[v2]": "4",
            "answer[v3]": "4", "exact_match[v1]": False, "exact_match[v2]": True, "exact_match[v3]": True,
        },
        [],
    )  # fmt: skip


def test_a_reply_without_members_is_scored_by_its_metrics_alone():
    assert member_scores(Reply(text="4", cost_usd=0.03), exact_match) == ({"exact_match": True}, [])


def test_scores_of_the_suite_replace_those_of_the_ensemble():
    @metric(name="cost_usd", kind="positive")
    def cost(reply, sample):
        return 1.0

    observations, _ = member_scores(REPLY, cost, scores={"consensus": 0.1})

    assert (observations["consensus"], observations["cost_usd"], observations["cost_usd[v1]"]) == (0.1, 1.0, 1.0)


def test_a_metric_can_see_whose_reply_it_scores():
    @metric(kind="text")
    def whose(reply, sample):
        return current_reply().member

    observations, _ = member_scores(REPLY, whose)

    assert [observations[name] for name in ("whose", "whose[v1]", "whose[v3]")] == ["", "v1", "v3"]
    assert current_reply().member == ""


def test_a_metric_that_fails_on_a_member_loses_that_score_only():
    @metric
    def brittle(reply, sample):
        return 1 / (reply.text != "5")

    observations, lost = member_scores(REPLY, brittle)

    assert (observations["brittle"], observations["brittle[v2]"]) == (1.0, 1.0)
    assert lost == [
        Lost(
            Unit(2, 0, 1, 3), "brittle[v1]", "scorer", "metric 'brittle[v1]' raised ZeroDivisionError: division by zero"
        )
    ]


def test_scores_of_a_lost_member_are_lost():
    reply = Reply(text="4", members={"v1": Reply(text="4")}, lost_members={"v2": "status 400, no"})
    observations, lost = member_scores(reply, exact_match)

    assert observations == {"exact_match": True, "answer[v1]": None, "exact_match[v1]": True}
    assert lost == [Lost(Unit(2, 0, 1, 3), "exact_match[v2]", "member", "member 'v2': status 400, no")]


def test_a_missing_answer_has_a_reason():
    reply = Reply(text="", finish="abstained", consensus=0.0, members={"v1": Reply(text="?")})
    observations, _ = judged_at_once(
        Outcome(Unit(0, 0, 0, 0), reply=reply), [], SAMPLE, passed=False, further=[score_members]
    )

    assert observations == [
        Observation(Unit(0, 0, 0, 0), "consensus", 0.0, "no member gave an answer"),
        Observation(Unit(0, 0, 0, 0), "answer[v1]", None, "the member abstained"),
    ]


def test_a_failed_or_lost_sample_has_no_scores_of_members():
    assert member_scores(REPLY, exact_match, failure="assertion") == ({}, [])
    assert member_scores(REPLY, exact_match, lost="error")[0] == {}


@metric(bounds=(0, 5), direction="lower")
def errors(reply, sample):
    return 1


def test_ensembles_have_facts_for_consensus_cost_answers_and_member_scores():
    facts = ensemble_facts([exact_match.facts, latency_s.facts], ["v1", "v2"])

    assert [entry.name for entry in facts] == [
        "consensus", "cost_usd", "answer[v1]", "answer[v2]", "exact_match[v1]", "exact_match[v2]", "latency_s[v1]",
        "latency_s[v2]",
    ]  # fmt: skip
    assert all(entry.of_ensemble for entry in facts)
    by_name = {entry.name: entry for entry in facts}
    assert (by_name["consensus"].low, by_name["consensus"].high) == (0.0, 1.0)
    assert (by_name["latency_s[v1]"].direction, by_name["latency_s[v1]"].kind) == ("lower", "positive")
    assert by_name["answer[v1]"].kind == "text"


def test_a_metric_of_the_suite_with_that_name_is_kept():
    own = metric(kind="binary", name="consensus")(lambda reply, sample: True)

    assert "consensus" not in [entry.name for entry in ensemble_facts([own.facts], ["v1"])]


def test_without_members_there_are_no_facts():
    assert ensemble_facts([exact_match.facts], []) == ()


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


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_truncated_member_has_the_worst_value(finish):
    cut = Reply(text="4", finish=finish, output_tokens=3)

    assert member_score(exact_match, cut, SAMPLE) is False
    assert member_score(errors, cut, SAMPLE) == 5.0
    assert isinstance(member_score(output_tokens, cut, SAMPLE), NotApplicable)
    assert math.isinf(output_tokens.facts.high)
