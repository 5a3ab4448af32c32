"""An ensemble as a Backend: its members are queried, and their replies become one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from pytest_crucible.backends.protocol import KnowsItsSamples
from pytest_crucible.features.ensembles.polling import Member, Poll, cascade, parallel, race, sequential
from pytest_crucible.features.ensembles.settings import Rules, find_function
from pytest_crucible.features.ensembles.votes import (
    INCOMPLETE,
    LAST,
    TIES,
    VOTES,
    Ballot,
    Tally,
    Vote,
    require_confidence,
    tally,
    user_vote,
)
from pytest_crucible.metrics.normalisers import NORMALISERS, Normaliser
from pytest_crucible.records import Emit, Event, Reply, Request
from pytest_crucible.records.errors import BackendError, SpecError, describe_type
from pytest_crucible.records.function_source import sources


class Ensemble:
    """Members that answer as one. The session closes them, since an adapter may be a member and an arm."""

    def __init__(self, name: str, members: Sequence[Member], rules: Rules, emit: Emit) -> None:
        self.name = name
        self.members = tuple(members)
        self.rules = rules
        self.simulated = any(member.backend.simulated for member in members)
        self._emit = emit
        self._vote, self._normalise, own_sources = _load_rules(name, rules)
        self._execute = _strategy(rules, self._vote)
        self.identity = _identity(self.members, rules, own_sources)

    async def generate(self, request: Request) -> Reply:
        """Query the members and count their answers. Raises BackendError if too few of them answer."""
        poll = Poll(members=self.members, order=self.rules.order, request=request, read=self._ballot)
        await self._execute(poll)
        if len(poll.answered) < self.rules.min_responses:
            raise BackendError(self._too_few(poll))
        tally_result = self._count(poll)
        self._publish(poll, tally_result)
        return _reply(self.name, poll, tally_result, voted=self.rules.execution != "hedged")

    def _ballot(self, position: int, reply: Reply) -> Ballot:
        """Return a reply as a ballot. A truncated or filtered reply abstains."""
        answer = None if reply.finish in INCOMPLETE else self._normalise(reply.answer)
        member, weights = self.members[position].name, self.rules.weights
        ballot = Ballot(member=member, reply=reply, answer=answer, weight=1.0 if weights is None else weights[position])
        if self.rules.by_confidence and ballot.is_cast:
            return replace(ballot, weight=require_confidence(ballot))
        return ballot

    def _count(self, poll: Poll) -> Tally:
        # An answer that counts without a vote (hedged, cascade) is not outvoted.
        if poll.decided is not None:
            decided = poll.decided
            return replace(tally(LAST, poll.ballots, _no_winner), chosen=decided, consensus=_share(decided, poll.cast))
        resolve = TIES[self.rules.ties]
        return tally(self._vote, poll.ballots, lambda leaders: resolve(leaders, poll.request, self.rules.seed))

    def _too_few(self, poll: Poll) -> str:
        position, error = next(iter(poll.lost.items()))
        return (
            f"{len(poll.answered)} of the {len(self.members)} members of {self.name!r} answered, and at least "
            f"{self.rules.min_responses} must ({self.members[position].name}: {error})"
        )

    def _publish(self, poll: Poll, tally_result: Tally) -> None:
        request, chosen = poll.request, tally_result.chosen
        self._emit(
            Event.about(
                "vote",
                request,
                facts={
                    "winner": None if chosen is None else chosen.answer,
                    "member": None if chosen is None else chosen.member,
                    "counts": dict(tally_result.totals),
                    "consensus": tally_result.consensus,
                    "tie": tally_result.tied,
                    "abstentions": [ballot.member for ballot in poll.ballots if not ballot.is_cast],
                    "queried": [self.members[position].name for position in poll.order if position in poll.queried],
                    "lost": [self.members[position].name for position in poll.order if position in poll.lost],
                    "stopped_early": poll.early,
                },
            )
        )


class RecordedEnsemble(Ensemble):
    """An ensemble of members that read replies from files: it can list the samples that enough members can answer."""

    def samples(self) -> frozenset[str]:
        """Return the samples that enough members can answer."""
        lists = [member.backend.samples() for member in self.members if isinstance(member.backend, KnowsItsSamples)]
        needed = self.rules.min_responses - (len(self.members) - len(lists))
        return frozenset(
            sample for sample in frozenset().union(*lists) if sum(sample in listed for listed in lists) >= needed
        )


def make_ensemble(name: str, members: Sequence[Member], rules: Rules, emit: Emit) -> Ensemble:
    """Make the ensemble of these members. Raises SpecError if two members are the same checkpoint."""
    _check_distinct(name, members)
    listed = sum(isinstance(member.backend, KnowsItsSamples) for member in members)
    # Members that read files cannot answer every sample, so the session must know which ones beforehand.
    kind = RecordedEnsemble if len(members) - listed < rules.min_responses else Ensemble
    return kind(name, members, rules, emit)


def _check_distinct(name: str, members: Sequence[Member]) -> None:
    for k, member in enumerate(members):
        for other in members[:k]:
            if (member.backend.identity, dict(member.parameters)) == (other.backend.identity, dict(other.parameters)):
                raise SpecError(
                    f"members {other.name!r} and {member.name!r} of {name!r} are the same checkpoint with the same "
                    "parameters: to use one model more than once, give its adapters different parameters, such as a seed"
                )


# -- construction -----------------------------------------------------------------------------------------------------


def _load_rules(name: str, rules: Rules) -> tuple[Vote, Normaliser, list[str]]:
    """Return the vote, the normaliser, and the source code of the user's own functions among them."""
    adapter_name = f"adapter {name!r}"
    user_sources: list[str] = []
    vote, normalise = VOTES.get(rules.vote, LAST), NORMALISERS.get(rules.normalise)
    if ":" in rules.vote:
        function = find_function(adapter_name, "vote", rules.vote)
        vote = user_vote(function, rules.vote)
        user_sources += sources(function)
    if normalise is None:
        function = find_function(adapter_name, "normalise", rules.normalise)
        normalise = partial(_check_answer, function, rules.normalise)
        user_sources += sources(function)
    return vote, normalise, user_sources


def _check_answer(function: Callable[[str], Any], name: str, text: str) -> str | None:
    answer = function(text)
    if answer is not None and not isinstance(answer, str):
        raise BackendError(f"normaliser {name!r} returned {describe_type(answer)}: return a string, or None to abstain")
    return answer


def _strategy(rules: Rules, vote: Vote) -> Callable[[Poll], Awaitable[None]]:
    if rules.execution == "hedged":
        return partial(race, delay_s=rules.delay_s or 0.0)
    if rules.execution == "cascade":
        return partial(cascade, threshold=rules.threshold or 1.0, min_responses=rules.min_responses)
    if rules.execution == "sequential":
        return partial(sequential, enough=partial(_is_settled, rules, vote))
    return parallel


def _is_settled(rules: Rules, vote: Vote, poll: Poll) -> bool:
    """Return whether enough members share an answer, or the others cannot change it any more."""
    if len(poll.answered) < rules.min_responses or not poll.cast:
        return False
    if rules.threshold is not None and tally(vote, poll.ballots, _no_winner).consensus >= rules.threshold:
        return True
    remaining = [position for position in poll.order if position not in poll.queried]
    open_weight = sum(1.0 if rules.weights is None else rules.weights[position] for position in remaining)
    return vote.settled(poll.cast, open_weight, rules.ties == "first")


def _identity(members: Sequence[Member], rules: Rules, own_sources: Sequence[str]) -> str:
    """Return a digest of the members, their parameters and all rules that combine their answers."""
    members_used = [(member.name, member.backend.identity, dict(member.parameters)) for member in members]
    # Functions of the user are covered by their source: another function is another ensemble.
    return hashlib.sha256(
        json.dumps([members_used, asdict(rules), own_sources], sort_keys=True, default=repr).encode()
    ).hexdigest()


# -- replies ----------------------------------------------------------------------------------------------------------


def _reply(name: str, poll: Poll, tally_result: Tally, *, voted: bool) -> Reply:
    """Return the chosen member's reply, with the sums over all members; a sum with an unknown part is unknown."""
    ballots = [poll.answered[position] for position in sorted(poll.answered)]
    base = Reply(text="", finish=tally_result.why) if tally_result.chosen is None else tally_result.chosen.reply
    # The cost of a cancelled request is unknown.
    is_complete = poll.queried == set(poll.answered) | set(poll.lost)
    return replace(
        base,
        model=name,
        input_tokens=_sum([ballot.reply.input_tokens for ballot in ballots], is_complete),
        output_tokens=_sum([ballot.reply.output_tokens for ballot in ballots], is_complete),
        cost_usd=_sum([ballot.reply.cost_usd for ballot in ballots], is_complete),
        latency_s=poll.latency_s,
        first_token_s=None,
        alternatives=(),
        cached=all(ballot.reply.cached for ballot in ballots),
        members={ballot.member: replace(ballot.reply, value=ballot.answer) for ballot in ballots},
        lost_members={poll.members[position].name: str(error) for position, error in sorted(poll.lost.items())},
        consensus=tally_result.consensus if voted or tally_result.chosen is None else None,
    )


def _sum(values: Sequence[Any], is_complete: bool) -> Any:
    return sum(values) if is_complete and all(value is not None for value in values) else None


def _share(decided: Ballot, cast: Sequence[Ballot]) -> float:
    return sum(ballot.answer == decided.answer for ballot in cast) / len(cast)


def _no_winner(leaders: Sequence[str]) -> str | None:
    return None
