"""Entailment by the judge: one verdict on each pair, or what several votes add up to."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from pytest_crucible import Reply
from pytest_crucible.metrics.models.judge_entailment import JudgeEntailment
from pytest_crucible.metrics.models.scorers import Judge, NoVerdict, configure, set_current_reply
from pytest_crucible.records import ModelCall


@pytest.fixture(autouse=True)
def no_scorer_is_left():
    yield
    configure()


def score(verdicts: dict[str, str], pairs, **options) -> tuple[list, list, str]:
    """Return the scores of pairs, the calls and the scorer's identity; `verdicts` has those on a hypothesis, one a vote."""
    calls: list[ModelCall] = []

    async def generate(request):
        (hypothesis,) = (name for name in verdicts if f"\n{name}\n" in request.input)
        return Reply(text=f"VERDICT: {verdicts[hypothesis].split()[request.call - 1]}", finish="stop")

    judge = Judge("critic", identity="critic:1", generate=generate, parameters={"temperature": 1, "seed": 5})
    configure(judge=lambda: judge)
    scorer = JudgeEntailment(**options)

    async def score_reply():
        set_current_reply("test.py::test", "q1", 2, calls)
        return await scorer.score(pairs)

    return asyncio.run(score_reply()), calls, scorer.identity


def shares(entailment) -> tuple[float, float, float]:
    return entailment.entailment, entailment.neutral, entailment.contradiction


def test_entailment_is_the_verdict_of_the_judge():
    pairs = [("Tea helps.", "It helps."), ("Tea helps.", "It harms.")]
    scores, calls, identity = score({"It helps.": "entailment", "It harms.": "contradiction"}, pairs)

    assert list(map(shares, scores)) == [(1.0, 0.0, 0.0), (0.0, 0.0, 1.0)]
    assert [(call.judge, call.request) for call in calls] == [("judge:critic", 1)] * 2
    assert "critic:1" in identity


@pytest.mark.parametrize(
    ("verdicts", "combine", "expected"),
    [
        ("entailment neutral entailment", "majority", (1.0, 0.0, 0.0)),
        ("entailment neutral entailment", "mean", (2 / 3, 1 / 3, 0.0)),
        ("entailment neutral contradiction", "majority", (1 / 3, 1 / 3, 1 / 3)),
        ("? neutral neutral", "majority", (0.0, 1.0, 0.0)),
    ],
)
def test_votes_on_each_pair_are_combined(verdicts, combine, expected):
    scores, calls, _ = score({"It helps.": verdicts}, [("Tea helps.", "It helps.")], votes=3, combine=combine)

    assert shares(scores[0]) == pytest.approx(expected)
    assert sum(shares(scores[0])) == pytest.approx(1)
    # Each vote is a draw of its own, with a seed of its own.
    assert {call.request for call in calls} == {1, 2, 3}
    assert Counter(call.parameters and call.parameters["seed"] for call in calls).keys() == {None, 6, 7}


@pytest.mark.parametrize(("verdicts", "combine"), [("? neutral entailment", "majority"), ("? neutral neutral", "mean")])
def test_unreadable_votes_that_could_change_the_scores_lose_them(verdicts, combine):
    with pytest.raises(NoVerdict):
        score({"It helps.": verdicts}, [("Tea helps.", "It helps.")], votes=3, combine=combine)


def test_votes_are_part_of_the_version():
    """Scores of another number of votes are not compared; those of one vote stay what they were."""
    pair = {"It helps.": "neutral neutral neutral"}
    identities = [
        score(pair, [], **options)[2] for options in ({}, {"votes": 1}, {"votes": 3}, {"votes": 3, "combine": "mean"})
    ]

    assert identities[0] == identities[1]
    assert identities[0].endswith(":abstract")
    assert len(set(identities)) == 3
