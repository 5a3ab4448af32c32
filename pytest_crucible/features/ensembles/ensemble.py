"""An ensemble as a Backend: its members are queried, and their replies become one."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from functools import partial
from typing import Any

from pytest_crucible.backends.protocol import Backend, KnowsItsSamples
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
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Emit, Event, Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, SpecError, Spent, Uncached, describe_type
from pytest_crucible.records.function_source import sources
from pytest_crucible.records.outcomes import SentRequests, confidence_of


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member: an adapter's backend and its parameters."""

    name: str
    backend: Backend
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The adapter's own parameters; those of the request take precedence."""


@dataclass(slots=True, kw_only=True)
class Poll:
    """Queries members for one sample. A strategy decides which and when; the poll records what happened."""

    members: Sequence[Member]
    order: Sequence[int]
    """Positions of the members, in the order of querying."""
    request: Request
    read: Callable[[int, Reply], Ballot]
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    queried: set[int] = field(default_factory=set)
    answered: dict[int, Ballot] = field(default_factory=dict)
    lost: dict[int, BackendError] = field(default_factory=dict)
    spent_s: dict[int, float] = field(default_factory=dict)
    """Seconds of each answer."""
    latency_s: float = 0.0
    """Seconds of the whole, as far as they were spent on answers that count."""
    decided: Ballot | None = None
    """An answer that counts without a vote."""
    early: bool = False
    """Whether a member was skipped or cancelled because the answer was settled."""

    @property
    def ballots(self) -> list[Ballot]:
        """The ballots so far, in the order of querying."""
        return [self.answered[position] for position in self.order if position in self.answered]

    @property
    def cast(self) -> list[Ballot]:
        return [ballot for ballot in self.ballots if ballot.is_cast]

    async def query(self, position: int) -> Ballot | None:
        """Query a member and return its ballot; None if the member is lost.

        Raises Refused, Spent and Uncached: an ensemble cannot replace what will never be answered.
        """
        member, loop = self.members[position], asyncio.get_running_loop()
        self.queried.add(position)
        # The request's parameters win: they are what the test asks for.
        parameters = {**member.parameters, **self.request.parameters}
        request = replace(
            self.request, parameters=parameters, member=member.name, open_stream=None, sent=SentRequests()
        )
        started = loop.time()
        try:
            reply = await member.backend.generate(request)
            if not isinstance(reply, Reply):
                raise BackendError(
                    f"the backend of {member.name!r} returned {describe_type(reply)}: generate() must return a Reply"
                )
        except (Refused, Spent, Uncached):
            raise
        except BackendError as error:
            self.lost[position] = error
            return None
        seconds = loop.time() - started if reply.latency_s is None else reply.latency_s
        self.spent_s[position] = seconds
        ballot = self.read(position, reply if reply.latency_s is not None else replace(reply, latency_s=seconds))
        self.answered[position] = ballot
        return ballot


Enough = Callable[[Poll], bool]
"""Return whether the answers so far are enough."""
QueryTask = asyncio.Task[Ballot | None]


async def parallel(poll: Poll) -> None:
    """Query all members at once and wait for all."""
    try:
        async with asyncio.TaskGroup() as group:
            for position in poll.order:
                group.create_task(poll.query(position))
    except BaseExceptionGroup as several:
        # A TaskGroup wraps errors; the first one is what stops the experiment.
        raise several.exceptions[0] from None
    # In parallel the slowest answer determines the time, in sequence their sum.
    poll.latency_s = max(poll.spent_s.values(), default=0.0)


async def sequential(poll: Poll, *, enough: Enough) -> None:
    """Query one member after the other until their answers are enough."""
    for number, position in enumerate(poll.order, start=1):
        await poll.query(position)
        if number < len(poll.order) and enough(poll):
            poll.early = True
            break
    poll.latency_s = sum(poll.spent_s.values())


async def cascade(poll: Poll, *, threshold: float, min_responses: int) -> None:
    """Query one member after the other until one is confident enough; its answer counts.

    The last member need not report its confidence: its answer counts if no other does.
    """

    def is_sure(poll: Poll) -> bool:
        if len(poll.answered) >= min_responses:
            poll.decided = next((ballot for ballot in poll.cast if require_confidence(ballot) >= threshold), None)
        return poll.decided is not None

    await sequential(poll, enough=is_sure)
    if poll.decided is None:
        poll.decided = next((ballot for ballot in poll.cast if (confidence_of(ballot.reply) or 0.0) >= threshold), None)


async def race(poll: Poll, *, delay_s: float) -> None:
    """Query the first member; after the delay, or without an answer from it, all others too. The first answer counts.

    The remaining requests are cancelled.
    """
    loop = asyncio.get_running_loop()
    first, *others = poll.order
    racing = {loop.create_task(poll.query(first))}
    starts = {first: loop.time()}
    try:
        poll.decided = await _winner(racing, poll, timeout_s=delay_s)
        if poll.decided is None:
            racing |= {loop.create_task(poll.query(position)) for position in others}
            starts |= dict.fromkeys(others, loop.time())
            poll.decided = await _winner(racing, poll, timeout_s=None)
    finally:
        poll.early = len(poll.queried) < len(poll.order) or any(not task.done() for task in racing)
        await _cancel(racing)
    # Times since the poll began, including the delay before a late starter.
    finished = {position: starts[position] - poll.began + seconds for position, seconds in poll.spent_s.items()}
    counted = [seconds for position, seconds in finished.items() if poll.decided in (None, poll.answered.get(position))]
    poll.latency_s = max(counted, default=0.0)


async def _winner(racing: Iterable[QueryTask], poll: Poll, *, timeout_s: float | None) -> Ballot | None:
    """Return the first answer in time; of two that come together, that of the member queried first."""
    pending: set[QueryTask] = {task for task in racing if not task.done()}
    while pending:
        done, pending = await asyncio.wait(pending, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()  # raises an error that stops the experiment
        if poll.cast or not done:
            break
    return next(iter(poll.cast), None)


async def _cancel(tasks: Iterable[QueryTask]) -> None:
    """Cancel running tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
