"""Counting of votes: worked examples, ties, abstentions, and laws that hold for any ballots."""

from __future__ import annotations

import math

import pytest
from ensemble_members import ballots
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_crucible import BackendError, Refused
from pytest_crucible.features.ensembles.votes import TIES, VOTES, Ballot, tally, user_vote
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.outcomes import confidence_of

REQUEST = Request(input="?", sample="q1", repeat=0)
ANSWERS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=7)


def picking(ties, seed=0, request=REQUEST):
    return lambda leaders: TIES[ties](leaders, request, seed)


def vote(rule, votes, ties="first"):
    return tally(VOTES[rule], votes, picking(ties))


def winner(counted):
    return None if counted.chosen is None else counted.chosen.answer


def surely(*pairs):
    """Ballots with so probable tokens; None is a reply without log-probabilities."""
    return [
        Ballot(
            member=f"v{k}",
            reply=Reply(text=answer, logprobs=None if share is None else (math.log(share),) * 3),
            answer=answer,
        )
        for k, (answer, share) in enumerate(pairs, start=1)
    ]


@pytest.mark.parametrize(
    ("answers", "wins", "consensus"),
    [
        (["a", "b", "a"], "a", 2 / 3),
        (["paris", "paris", "paris"], "paris", 1.0),
        (["a", "b", "b", "a", "b"], "b", 3 / 5),
        (["zebra", "apple"], "zebra", 1 / 2),
        ([None, None, "42.0"], "42.0", 1.0),
        ([None, "a", "b", "b"], "b", 2 / 3),
    ],
    ids=[
        "two of three",
        "all",
        "three of five",
        "a tie is no matter of spelling",
        "two that say nothing",
        "one that does",
    ],
)
def test_majority(answers, wins, consensus):
    counted = vote("majority", ballots(*answers))

    assert (winner(counted), counted.why) == (wins, "")
    assert counted.consensus == pytest.approx(consensus, rel=1e-15)


@pytest.mark.parametrize("rule", VOTES)
def test_vote_without_ballots_abstains(rule):
    counted = vote(rule, ballots(None, None))

    assert (counted.chosen, counted.consensus, counted.why) == (None, 0.0, "abstained")


def test_weights_decide_a_weighted_vote():
    counted = vote("weighted", ballots("a", "b", "b", weights=[0.9, 0.6, 0.5]))

    assert (winner(counted), counted.totals) == ("b", {"a": 0.9, "b": 1.1})
    assert counted.consensus == pytest.approx(0.55)
    assert winner(vote("weighted", ballots("a", "b", "b", weights=[3, 1, 1]))) == "a"


def test_zero_weight_cannot_win():
    assert winner(vote("weighted", ballots("a", "b", weights=[0.0, 0.1]))) == "b"
    assert vote("weighted", ballots("a", weights=[0.0])).why == "abstained"


def test_rounding_differences_are_ties():
    counted = vote("weighted", ballots("a", "b", "b", weights=[0.3, 0.1, 0.2]), ties="abstain")

    assert (counted.chosen, counted.tied, counted.why) == (None, True, "tied")


def test_most_confident_member_decides():
    counted = vote("best_confidence", surely(("a", 0.6), ("a", 0.7), ("b", 0.9)))

    assert (winner(counted), counted.chosen.member) == ("b", "v3")
    assert counted.consensus == pytest.approx(1 / 3)


def test_equally_confident_members_that_agree_are_not_tied():
    counted = vote("best_confidence", surely(("b", 0.2), ("a", 0.9), ("a", 0.9)), ties="abstain")

    assert (winner(counted), counted.chosen.member, counted.tied) == ("a", "v2", False)


def test_confidence_is_the_geometric_mean_of_the_tokens_probabilities():
    assert confidence_of(Reply(text="", logprobs=(math.log(0.9), math.log(0.4)))) == pytest.approx(math.sqrt(0.36))
    assert confidence_of(Reply(text="", logprobs=(-math.inf, 0.0))) == 0.0
    assert confidence_of(Reply(text="", logprobs=(1e-7,))) == 1.0
    assert [confidence_of(Reply(text="", logprobs=logprobs)) for logprobs in (None, (), (math.nan,))] == [None] * 3


def test_confidence_vote_needs_log_probabilities():
    with pytest.raises(Refused, match="member 'v2' answers without log-probabilities"):
        vote("best_confidence", surely(("a", 0.5), ("b", None)))


@pytest.mark.parametrize(
    ("answers", "wins", "consensus", "why"),
    [(["a", "a"], "a", 1.0, ""), (["a", None, "a"], "a", 1.0, ""), (["a", "b", "a"], None, 2 / 3, "divided")],
    ids=["agree", "who abstains does not disagree", "differ"],
)
def test_unanimous(answers, wins, consensus, why):
    counted = vote("unanimous", ballots(*answers))

    assert (winner(counted), counted.why) == (wins, why)
    assert counted.consensus == pytest.approx(consensus)


# -- ties -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ties", "wins"), [("first", "zebra"), ("abstain", None)])
def test_ties_follow_the_setting(ties, wins):
    counted = vote("majority", ballots("zebra", "apple", "apple", "zebra"), ties=ties)

    assert (winner(counted), counted.tied, counted.consensus) == (wins, True, 0.5)


def test_random_ties_depend_on_seed_and_sample():
    def drawn(seed):
        return "".join(
            TIES["random"](["zebra", "apple"], Request(input="", sample=f"q{k}", repeat=0), seed)[0] for k in range(200)
        )

    assert drawn(1) == drawn(1) != drawn(2)
    assert 70 <= drawn(1).count("z") <= 130


# -- a vote of the user's own ----------------------------------------------------------------------------------------------


def test_user_vote_chooses_among_cast_ballots():
    def shortest(cast):
        return min((ballot.answer for ballot in cast), key=len)

    counted = tally(user_vote(shortest, "mine:shortest"), ballots("long", None, "s", "long"), picking("first"))

    assert (winner(counted), counted.chosen.member) == ("s", "v3")
    assert counted.consensus == pytest.approx(1 / 3)


def test_user_vote_can_choose_none():
    counted = tally(user_vote(lambda cast: None, "mine:never"), ballots("a", "a", "b"), picking("first"))

    assert (counted.chosen, counted.why) == (None, "divided")
    assert counted.consensus == pytest.approx(2 / 3)


def test_user_vote_must_choose_a_given_answer():
    with pytest.raises(
        BackendError, match=r"vote 'mine:wrong' chose 'z', which no member answered: return one of their answers"
    ):
        tally(user_vote(lambda cast: "z", "mine:wrong"), ballots("a"), picking("first"))


# -- laws -----------------------------------------------------------------------------------------------------------


@given(answers=ANSWERS, order=st.randoms(use_true_random=False), ties=st.sampled_from(["abstain", "random"]))
def test_order_of_members_does_not_matter(answers, order, ties):
    shuffled = list(answers)
    order.shuffle(shuffled)
    first, other = (vote("majority", ballots(*some), ties=ties) for some in (answers, shuffled))

    assert (winner(first), first.consensus) == (winner(other), other.consensus)
    assert (first.tied, first.why) == (other.tied, other.why)


@given(answers=ANSWERS, order=st.randoms(use_true_random=False))
def test_under_first_only_ties_depend_on_the_order(answers, order):
    shuffled = list(answers)
    order.shuffle(shuffled)
    first, other = vote("majority", ballots(*answers)), vote("majority", ballots(*shuffled))

    assert first.tied == other.tied
    assert first.tied or winner(first) == winner(other)


@given(
    answers=ANSWERS,
    place=st.integers(0, 7),
    rule=st.sampled_from(["majority", "unanimous"]),
    ties=st.sampled_from(sorted(TIES)),
)
def test_extra_abstention_changes_nothing(answers, place, rule, ties):
    more = [*answers[:place], None, *answers[place:]]
    first, other = vote(rule, ballots(*answers), ties=ties), vote(rule, ballots(*more), ties=ties)

    assert (winner(first), first.consensus) == (winner(other), other.consensus)
    assert (first.totals, first.why) == (other.totals, other.why)


@given(answers=ANSWERS, weight=st.floats(1e-3, 1e3))
def test_equal_weights_are_a_majority(answers, weight):
    heads, weighed = (
        vote("majority", ballots(*answers)),
        vote("weighted", ballots(*answers, weights=[weight] * len(answers))),
    )

    assert winner(heads) == winner(weighed)
    assert heads.consensus == pytest.approx(weighed.consensus)


@given(answers=ANSWERS, rule=st.sampled_from(["majority", "unanimous"]), ties=st.sampled_from(sorted(TIES)))
def test_consensus_is_the_winners_share(answers, rule, ties):
    counted = vote(rule, ballots(*answers), ties=ties)

    assert 0 <= counted.consensus <= 1
    assert (counted.chosen is None) == (counted.why != "")
    if counted.chosen is not None:
        given_answers = [answer for answer in answers if answer is not None]
        assert counted.consensus == given_answers.count(winner(counted)) / len(given_answers)


@given(
    answers=ANSWERS,
    later=st.lists(st.sampled_from(["a", "b", "d", None]), max_size=4),
    rule=st.sampled_from(["majority", "unanimous"]),
    ties=st.sampled_from(sorted(TIES)),
)
def test_settled_vote_cannot_change(answers, later, rule, ties):
    cast = [ballot for ballot in ballots(*answers) if ballot.is_cast]
    assume(VOTES[rule].settled(cast, float(len(later)), ties == "first"))
    before, after = vote(rule, ballots(*answers), ties=ties), vote(rule, ballots(*answers, *later), ties=ties)

    assert (winner(before), before.why) == (winner(after), after.why)
