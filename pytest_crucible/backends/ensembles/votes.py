"""How the answers of an ensemble's members become one. What abstains is not counted, and can never win."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible.backends.ensembles.ballots import Ballot, Tally, confidence
from pytest_crucible.errors import BackendError, Refused

Pick = Callable[[Sequence[str]], str | None]
"""Chooses between answers that are equally good, given in the order in which they were first given; or none of them."""
Count = Callable[[Sequence[Ballot], Pick], Tally]
"""Counts ballots that are all cast, at least one, in the order in which the members stand."""
Settled = Callable[[Sequence[Ballot], float, bool], bool]
"""Would no further ballots of this weight change the answer? The flag: whether of equal answers the first one wins."""
OwnVote = Callable[[Sequence[Ballot]], "str | None"]
ROUNDING = 1e-9
"""Sums of weights that differ by less are equal: 0.1 + 0.2 is 0.3."""


@dataclass(frozen=True, slots=True)
class Vote:
    """A rule: how it counts, and when it need not ask any further."""

    count: Count
    settled: Settled = lambda cast, open_weight, first: False


def tally(vote: Vote, ballots: Sequence[Ballot], pick: Pick) -> Tally:
    """Count all ballots by a rule."""
    cast = [ballot for ballot in ballots if ballot.is_cast]
    return vote.count(cast, pick) if cast else Tally(chosen=None, consensus=0.0, why="abstained")


def totals_of(cast: Sequence[Ballot]) -> dict[str, float]:
    """Answer -> the weight of its votes. Exactly rounded sums: the order of the votes is no part of them."""
    weights: dict[str, list[float]] = {}
    for ballot in cast:
        weights.setdefault(str(ballot.answer), []).append(ballot.weight)
    return {answer: math.fsum(several) for answer, several in weights.items()}


# -- rules ----------------------------------------------------------------------------------------------------------


def plurality(cast: Sequence[Ballot], pick: Pick) -> Tally:
    """The answer with the most weight; a majority vote where all weigh the same."""
    totals = totals_of(cast)
    most = max(totals.values())
    leaders = [answer for answer, total in totals.items() if _equal(total, most)]
    return _decided(cast, leaders, totals, pick)


def best_confidence(cast: Sequence[Ballot], pick: Pick) -> Tally:
    """The answer of the most confident member."""
    known = [known_confidence(ballot) for ballot in cast]
    best = max(known)
    surest = [ballot for ballot, one in zip(cast, known, strict=True) if _equal(one, best)]
    leaders = list(dict.fromkeys(str(ballot.answer) for ballot in surest))
    return _decided(surest, leaders, totals_of(cast), pick)


def unanimous(cast: Sequence[Ballot], pick: Pick) -> Tally:
    """The answer that all who answered gave; none where they differ."""
    totals = totals_of(cast)
    if len(totals) > 1:
        return Tally(chosen=None, consensus=_largest_share(totals), totals=totals, why="divided")
    return _elected(cast[0], totals)


def last(cast: Sequence[Ballot], pick: Pick) -> Tally:
    """The answer of the last one that gave one: in a cascade, of the strongest."""
    return _elected(cast[-1], totals_of(cast))


def own(function: OwnVote, name: str) -> Vote:
    """A function of the user's: it is given the cast ballots, and returns one of their answers, or None."""

    def count(cast: Sequence[Ballot], pick: Pick) -> Tally:
        totals, answer = totals_of(cast), function(tuple(cast))
        if answer is None:
            return Tally(chosen=None, consensus=_largest_share(totals), totals=totals, why="divided")
        if answer not in totals:
            raise BackendError(f"vote {name!r} chose {answer!r}, which no member answered: return one of their answers")
        return _elected(_first_with(answer, cast), totals)

    return Vote(count)


# -- when a vote is settled before all have voted ---------------------------------------------------------------------


def leads(cast: Sequence[Ballot], open_weight: float, first: bool) -> bool:
    """Whatever the others say, the leading answer keeps the lead."""
    totals = totals_of(cast)
    if not totals:
        return False
    leader = max(totals, key=lambda answer: totals[answer])
    rival = max((total for answer, total in totals.items() if answer != leader), default=0.0) + open_weight
    if _equal(totals[leader], rival):
        return first and leader == next(iter(totals))
    return totals[leader] > rival


def differs(cast: Sequence[Ballot], open_weight: float, first: bool) -> bool:
    """Two who differ will not be unanimous any more."""
    return len({ballot.answer for ballot in cast}) > 1


VOTES: Mapping[str, Vote] = {
    "majority": Vote(plurality, leads),
    "weighted": Vote(plurality, leads),
    "best_confidence": Vote(best_confidence),
    "unanimous": Vote(unanimous, differs),
}
LAST = Vote(last)


def known_confidence(ballot: Ballot) -> float:
    """The confidence of a reply. Raises Refused where it has none: no reply of this member would."""
    known = confidence(ballot.reply)
    if known is None:
        raise Refused(
            f"member {ballot.member!r} answers without log-probabilities, which its confidence is computed from: ask it "
            "for them in its parameters, or choose a vote and an execution that need none"
        )
    return known


def _decided(cast: Sequence[Ballot], leaders: list[str], totals: Mapping[str, float], pick: Pick) -> Tally:
    """The one leader's tally, or that of the one which is picked."""
    tied = len(leaders) > 1
    winner = pick(leaders) if tied else leaders[0]
    if winner is None:
        return Tally(chosen=None, consensus=_largest_share(totals), totals=totals, tied=True, why="tied")
    return _elected(_first_with(winner, cast), totals, tied=tied)


def _elected(ballot: Ballot, totals: Mapping[str, float], *, tied: bool = False) -> Tally:
    share = totals[str(ballot.answer)] / math.fsum(totals.values())
    return Tally(chosen=ballot, consensus=share, totals=totals, tied=tied)


def _first_with(answer: str, cast: Sequence[Ballot]) -> Ballot:
    return next(ballot for ballot in cast if ballot.answer == answer)


def _largest_share(totals: Mapping[str, float]) -> float:
    return max(totals.values()) / math.fsum(totals.values())


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ROUNDING)
