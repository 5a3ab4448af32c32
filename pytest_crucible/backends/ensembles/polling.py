"""One request to the members of an ensemble, and their answers so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_crucible.backends.ensembles.ballots import Ballot
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, Spent, Uncached
from pytest_crucible.records.type_names import describe_type


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
