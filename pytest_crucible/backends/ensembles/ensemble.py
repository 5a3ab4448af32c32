"""An ensemble as a Backend: several adapters are asked, and one reply comes back, with all of theirs in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from pytest_crucible.backends.ensembles import executions
from pytest_crucible.backends.ensembles.ballots import CUT, Ballot, Tally
from pytest_crucible.backends.ensembles.functions import find_function
from pytest_crucible.backends.ensembles.normalisers import NORMALISERS, Normaliser
from pytest_crucible.backends.ensembles.polling import Member, Poll
from pytest_crucible.backends.ensembles.rules import Rules
from pytest_crucible.backends.ensembles.ties import TIES
from pytest_crucible.backends.ensembles.votes import LAST, VOTES, Vote, known_confidence, own, tally
from pytest_crucible.backends.protocol import Listed
from pytest_crucible.errors import BackendError, SpecError
from pytest_crucible.records import Emit, Event, Reply, Request
from pytest_crucible.sources import sources


class Ensemble:
    """Members that answer as one. They belong to the session, which closes them: an adapter may be a member and an arm."""

    def __init__(self, name: str, members: Sequence[Member], rules: Rules, emit: Emit) -> None:
        self.name = name
        self.members = tuple(members)
        self.rules = rules
        self.simulated = any(member.backend.simulated for member in members)
        self._emit = emit
        self._vote, self._normalise, own_sources = _rules_of(name, rules)
        self._execute = _execution(rules, self._vote)
        self.identity = _identity(self.members, rules, own_sources)

    async def generate(self, request: Request) -> Reply:
        """Ask the members, count their answers. Raises BackendError when too few of them can be had."""
        poll = Poll(members=self.members, order=self.rules.order, request=request, read=self._ballot)
        await self._execute(poll)
        if len(poll.answered) < self.rules.min_responses:
            raise BackendError(self._too_few(poll))
        counted = self._count(poll)
        self._tell(poll, counted)
        return _reply(self.name, poll, counted, voted=self.rules.execution != "hedged")

    def _ballot(self, position: int, reply: Reply) -> Ballot:
        """A reply as a vote. What was cut short or withheld is no answer."""
        answer = None if reply.finish in CUT else self._normalise(reply.text)
        member, weights = self.members[position].name, self.rules.weights
        ballot = Ballot(member=member, reply=reply, answer=answer, weight=1.0 if weights is None else weights[position])
        if self.rules.by_confidence and ballot.is_cast:
            return replace(ballot, weight=known_confidence(ballot))
        return ballot

    def _count(self, poll: Poll) -> Tally:
        if poll.decided is not None:
            decided = poll.decided
            return replace(tally(LAST, poll.ballots, _nobody), chosen=decided, consensus=_share(decided, poll.cast))
        resolve = TIES[self.rules.ties]
        return tally(self._vote, poll.ballots, lambda leaders: resolve(leaders, poll.request, self.rules.seed))

    def _too_few(self, poll: Poll) -> str:
        position, error = next(iter(poll.lost.items()))
        return (
            f"{len(poll.answered)} of the {len(self.members)} members of {self.name!r} answered, and at least "
            f"{self.rules.min_responses} must ({self.members[position].name}: {error})"
        )

    def _tell(self, poll: Poll, counted: Tally) -> None:
        request, chosen = poll.request, counted.chosen
        self._emit(
            Event.about(
                "vote",
                request,
                facts={
                    "winner": None if chosen is None else chosen.answer,
                    "member": None if chosen is None else chosen.member,
                    "counts": dict(counted.totals),
                    "consensus": counted.consensus,
                    "tie": counted.tied,
                    "abstentions": [ballot.member for ballot in poll.ballots if not ballot.is_cast],
                    "asked": [self.members[position].name for position in poll.order if position in poll.asked],
                    "lost": [self.members[position].name for position in poll.order if position in poll.lost],
                    "stopped_early": poll.early,
                },
            )
        )


class ListedEnsemble(Ensemble):
    """An ensemble too many of whose members read their answers from files to answer any sample: it knows which it can."""

    def samples(self) -> frozenset[str]:
        """Those that enough members have."""
        lists = [member.backend.samples() for member in self.members if isinstance(member.backend, Listed)]
        wanted = self.rules.min_responses - (len(self.members) - len(lists))
        return frozenset(
            sample for sample in frozenset().union(*lists) if sum(sample in one for one in lists) >= wanted
        )


def ensemble(name: str, members: Sequence[Member], rules: Rules, emit: Emit) -> Ensemble:
    """The ensemble of these members. Raises SpecError for two members that are the same checkpoint."""
    _check_distinct(name, members)
    listed = sum(isinstance(member.backend, Listed) for member in members)
    kind = ListedEnsemble if len(members) - listed < rules.min_responses else Ensemble
    return kind(name, members, rules, emit)


def _check_distinct(name: str, members: Sequence[Member]) -> None:
    for k, one in enumerate(members):
        for other in members[:k]:
            if (one.backend.identity, dict(one.parameters)) == (other.backend.identity, dict(other.parameters)):
                raise SpecError(
                    f"members {other.name!r} and {one.name!r} of {name!r} are the same checkpoint with the same "
                    "parameters: to ask one model more than once, give them parameters that differ, such as a seed"
                )


# -- what an ensemble is made of --------------------------------------------------------------------------------------


def _rules_of(name: str, rules: Rules) -> tuple[Vote, Normaliser, list[str]]:
    """The vote, the normaliser, and the sources of those that are the user's own."""
    says = f"adapter {name!r}"
    written: list[str] = []
    vote, normalise = VOTES.get(rules.vote, LAST), NORMALISERS.get(rules.normalise)
    if ":" in rules.vote:
        function = find_function(says, "vote", rules.vote)
        vote = own(function, rules.vote)
        written += sources(function)
    if normalise is None:
        function = find_function(says, "normalise", rules.normalise)
        normalise = partial(_own_answer, function, rules.normalise)
        written += sources(function)
    return vote, normalise, written


def _own_answer(function: Callable[[str], Any], name: str, text: str) -> str | None:
    answer = function(text)
    if answer is not None and not isinstance(answer, str):
        raise BackendError(f"normaliser {name!r} returned a {type(answer).__name__}: return a str, or None to abstain")
    return answer


def _execution(rules: Rules, vote: Vote) -> Callable[[Poll], Awaitable[None]]:
    if rules.execution == "hedged":
        return partial(executions.hedged, delay_s=rules.delay_s or 0.0)
    if rules.execution == "cascade":
        return partial(executions.cascade, threshold=rules.threshold or 1.0, min_responses=rules.min_responses)
    if rules.execution == "sequential":
        return partial(executions.sequential, enough=partial(_agreed, rules, vote))
    return executions.parallel


def _agreed(rules: Rules, vote: Vote, poll: Poll) -> bool:
    """Do enough members share an answer, or can the others not change it any more?"""
    if len(poll.answered) < rules.min_responses or not poll.cast:
        return False
    if rules.threshold is not None and tally(vote, poll.ballots, _nobody).consensus >= rules.threshold:
        return True
    unasked = [position for position in poll.order if position not in poll.asked]
    open_weight = sum(1.0 if rules.weights is None else rules.weights[position] for position in unasked)
    return vote.settled(poll.cast, open_weight, rules.ties == "first")


def _identity(members: Sequence[Member], rules: Rules, own_sources: Sequence[str]) -> str:
    """Who answers, with which parameters, and every rule by which their answers become one."""
    said = [(member.name, member.backend.identity, dict(member.parameters)) for member in members]
    return hashlib.sha256(
        json.dumps([said, asdict(rules), own_sources], sort_keys=True, default=repr).encode()
    ).hexdigest()


# -- what it answers --------------------------------------------------------------------------------------------------


def _reply(name: str, poll: Poll, counted: Tally, *, voted: bool) -> Reply:
    """The chosen member's reply, with what all of them took. What is not known of one is not known of all."""
    ballots = [poll.answered[position] for position in sorted(poll.answered)]
    base = Reply(text="", finish=counted.why) if counted.chosen is None else counted.chosen.reply
    known = poll.asked == set(poll.answered) | set(poll.lost)  # what was cancelled cost nobody knows what
    return replace(
        base,
        model=name,
        input_tokens=_sum([ballot.reply.input_tokens for ballot in ballots], known),
        output_tokens=_sum([ballot.reply.output_tokens for ballot in ballots], known),
        cost_usd=_sum([ballot.reply.cost_usd for ballot in ballots], known),
        latency_s=poll.latency_s,
        first_token_s=None,
        alternatives=(),
        cached=all(ballot.reply.cached for ballot in ballots),
        members={ballot.member: replace(ballot.reply, value=ballot.answer) for ballot in ballots},
        lost_members={poll.members[position].name: str(error) for position, error in sorted(poll.lost.items())},
        consensus=counted.consensus if voted or counted.chosen is None else None,
    )


def _sum(values: Sequence[Any], known: bool) -> Any:
    return sum(values) if known and all(value is not None for value in values) else None


def _share(decided: Ballot, cast: Sequence[Ballot]) -> float:
    return sum(ballot.answer == decided.answer for ballot in cast) / len(cast)


def _nobody(leaders: Sequence[str]) -> str | None:
    return None
