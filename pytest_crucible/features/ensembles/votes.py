"""Votes: how the members' answers become one. Abstentions are not counted and cannot win."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import BackendError, Refused
from pytest_crucible.records.outcomes import confidence_of

# Finish reasons of an incomplete reply, which abstains.
INCOMPLETE = ("length", "content_filter")
Indecision = Literal["abstained", "tied", "divided"]
"""Why an ensemble has no answer: all abstained, the best are tied, or the rule needs more agreement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """One member's reply, read as a vote."""

    member: str
    reply: Reply
    answer: str | None
    """The normalised reply; None abstains."""
    weight: float = 1.0

    @property
    def is_cast(self) -> bool:
        """False for an abstention and for a vote of weight 0: neither can win."""
        return self.answer is not None and self.weight > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The result of a vote."""

    chosen: Ballot | None
    """The ballot whose reply is the ensemble's; None without an answer, see `why`."""
    consensus: float
    """The winner's share of the cast votes, by weight; without a winner, the largest share."""
    totals: Mapping[str, float] = field(default_factory=dict)
    """The weight of each answer's votes, in the order in which the answers were first given."""
    tied: bool = False
    why: Indecision | Literal[""] = ""


Tie = Callable[[Sequence[str], Request, int], "str | None"]
"""A rule for ties: returns one of the leading answers, or None; the number is the seed."""


def first(leaders: Sequence[str], request: Request, seed: int) -> str | None:
    """Return the answer that was given first."""
    return leaders[0]


def abstain(leaders: Sequence[str], request: Request, seed: int) -> str | None:
    """Return None: a tie has no winner."""
    return None


def at_random(leaders: Sequence[str], request: Request, seed: int) -> str | None:
    """Draw one by seed, sample and repeat: the same in every run, whatever the order of members and samples."""
    # Sorted: the draw must not depend on the order in which members answered.
    return random.Random(f"{seed}/{request.repeat}/{request.sample}").choice(sorted(leaders))


TIES: Mapping[str, Tie] = {"first": first, "abstain": abstain, "random": at_random}


BreakTie = Callable[[Sequence[str]], str | None]
"""Chooses one of tied answers, which are in the order in which they were first given; or returns None."""
Count = Callable[[Sequence[Ballot], BreakTie], Tally]
"""Counts cast ballots (at least one), in the order of the members."""
IsSettled = Callable[[Sequence[Ballot], float, bool], bool]
"""Returns whether further ballots of this weight cannot change the answer.

The flag: whether the first answer wins a tie.
"""
OwnVote = Callable[[Sequence[Ballot]], "str | None"]
# Relative difference below which sums of weights are equal: 0.1 + 0.2 must equal 0.3.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Vote:
    """A rule: how it counts, and when the result is settled early."""

    count: Count
    settled: IsSettled = lambda cast, open_weight, first: False


def tally(vote: Vote, ballots: Sequence[Ballot], break_tie: BreakTie) -> Tally:
    """Count ballots by a rule."""
    cast = [ballot for ballot in ballots if ballot.is_cast]
    return vote.count(cast, break_tie) if cast else Tally(chosen=None, consensus=0.0, why="abstained")


def sum_weights(cast: Sequence[Ballot]) -> dict[str, float]:
    """Return the weight of each answer's votes. math.fsum makes the sum independent of the order of the votes."""
    weights: dict[str, list[float]] = {}
    for ballot in cast:
        weights.setdefault(str(ballot.answer), []).append(ballot.weight)
    return {answer: math.fsum(several) for answer, several in weights.items()}


# -- rules ----------------------------------------------------------------------------------------------------------


def plurality(cast: Sequence[Ballot], break_tie: BreakTie) -> Tally:
    """Elect the answer with the largest weight: with equal weights, the majority."""
    totals = sum_weights(cast)
    most = max(totals.values())
    leaders = [answer for answer, total in totals.items() if _equal(total, most)]
    return _elect_leader(cast, leaders, totals, break_tie)


def best_confidence(cast: Sequence[Ballot], break_tie: BreakTie) -> Tally:
    """Elect the answer of the most confident member."""
    confidences = [require_confidence(ballot) for ballot in cast]
    best = max(confidences)
    surest = [
        ballot for ballot, confidence_value in zip(cast, confidences, strict=True) if _equal(confidence_value, best)
    ]
    leaders = list(dict.fromkeys(str(ballot.answer) for ballot in surest))
    return _elect_leader(surest, leaders, sum_weights(cast), break_tie)


def unanimous(cast: Sequence[Ballot], break_tie: BreakTie) -> Tally:
    """Elect the answer that all members share, if they do."""
    totals = sum_weights(cast)
    if len(totals) > 1:
        return Tally(chosen=None, consensus=_largest_share(totals), totals=totals, why="divided")
    return _elect(cast[0], totals)


def last(cast: Sequence[Ballot], break_tie: BreakTie) -> Tally:
    """Elect the last answer: in a cascade, that of the strongest member."""
    return _elect(cast[-1], sum_weights(cast))


def user_vote(function: OwnVote, name: str) -> Vote:
    """Wrap a user's function, which receives the cast ballots and returns one of their answers, or None."""

    def count(cast: Sequence[Ballot], break_tie: BreakTie) -> Tally:
        totals, answer = sum_weights(cast), function(tuple(cast))
        if answer is None:
            return Tally(chosen=None, consensus=_largest_share(totals), totals=totals, why="divided")
        if answer not in totals:
            raise BackendError(f"vote {name!r} chose {answer!r}, which no member answered: return one of their answers")
        return _elect(_first_with(answer, cast), totals)

    return Vote(count)


# -- results that are settled before all have voted -------------------------------------------------------------------


def is_lead_safe(cast: Sequence[Ballot], open_weight: float, first: bool) -> bool:
    """Return whether the leading answer wins for all possible answers of the others."""
    totals = sum_weights(cast)
    if not totals:
        return False
    leader = max(totals, key=lambda answer: totals[answer])
    rival = max((total for answer, total in totals.items() if answer != leader), default=0.0) + open_weight
    if _equal(totals[leader], rival):
        return first and leader == next(iter(totals))
    return totals[leader] > rival


def has_dissent(cast: Sequence[Ballot], open_weight: float, first: bool) -> bool:
    """Return whether two members already differ, so that the vote cannot become unanimous."""
    return len({ballot.answer for ballot in cast}) > 1


VOTES: Mapping[str, Vote] = {
    "majority": Vote(plurality, is_lead_safe),
    "weighted": Vote(plurality, is_lead_safe),
    "best_confidence": Vote(best_confidence),
    "unanimous": Vote(unanimous, has_dissent),
}
LAST = Vote(last)


def require_confidence(ballot: Ballot) -> float:
    """Return a reply's confidence. Raises Refused if it has none: no reply of this member would."""
    value = confidence_of(ballot.reply)
    if value is None:
        raise Refused(
            f"member {ballot.member!r} answers without log-probabilities, from which its confidence is computed: request "
            "them in its parameters (logprobs = true), or choose a vote and an execution that do not need them"
        )
    return value


def _elect_leader(
    cast: Sequence[Ballot], leaders: list[str], totals: Mapping[str, float], break_tie: BreakTie
) -> Tally:
    """Return the tally of the only leader, or of the one that breaks the tie."""
    tied = len(leaders) > 1
    winner = break_tie(leaders) if tied else leaders[0]
    if winner is None:
        return Tally(chosen=None, consensus=_largest_share(totals), totals=totals, tied=True, why="tied")
    return _elect(_first_with(winner, cast), totals, tied=tied)


def _elect(ballot: Ballot, totals: Mapping[str, float], *, tied: bool = False) -> Tally:
    share = totals[str(ballot.answer)] / math.fsum(totals.values())
    return Tally(chosen=ballot, consensus=share, totals=totals, tied=tied)


def _first_with(answer: str, cast: Sequence[Ballot]) -> Ballot:
    return next(ballot for ballot in cast if ballot.answer == answer)


def _largest_share(totals: Mapping[str, float]) -> float:
    return max(totals.values()) / math.fsum(totals.values())


def _equal(first: float, other: float) -> bool:
    return math.isclose(first, other, rel_tol=ROUNDING)
