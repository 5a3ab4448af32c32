"""One request to the members of an ensemble: all at once, one after the other, or as a race."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_crucible.backends.protocol import Backend
from pytest_crucible.features.ensembles.votes import Ballot, confidence, require_confidence
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, Spent, Uncached, describe_type


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
        request = replace(self.request, parameters=parameters, member=member.name, open_stream=None)
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
        poll.decided = next((ballot for ballot in poll.cast if (confidence(ballot.reply) or 0.0) >= threshold), None)


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
