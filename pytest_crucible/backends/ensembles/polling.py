"""One question put to the members of an ensemble, and what came of it so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_crucible.backends.ensembles.ballots import Ballot
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.errors import BackendError, Refused, Spent, Uncached
from pytest_crucible.records import Reply, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An adapter with all that it is asked through."""

    name: str
    backend: Backend
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Its own; what the request says wins."""


@dataclass(slots=True, kw_only=True)
class Poll:
    """Asks members for one sample. Executions decide whom, and when; each keeps here what happened."""

    members: Sequence[Member]
    order: Sequence[int]
    """Positions of the members, the first one to be asked first."""
    request: Request
    read: Callable[[int, Reply], Ballot]
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    asked: set[int] = field(default_factory=set)
    answered: dict[int, Ballot] = field(default_factory=dict)
    lost: dict[int, BackendError] = field(default_factory=dict)
    spent_s: dict[int, float] = field(default_factory=dict)
    """What each answer took."""
    latency_s: float = 0.0
    """What the whole took whoever asked, as far as it was spent on answers."""
    decided: Ballot | None = None
    """An answer that counts without a vote."""
    early: bool = False
    """Some member was not asked, or not waited for, as the answer was there."""

    @property
    def ballots(self) -> list[Ballot]:
        """Those that are in, in the order of asking."""
        return [self.answered[position] for position in self.order if position in self.answered]

    @property
    def cast(self) -> list[Ballot]:
        return [ballot for ballot in self.ballots if ballot.is_cast]

    async def ask(self, position: int) -> Ballot | None:
        """One member's ballot; None for a member that is lost.

        Raises Refused, Spent and Uncached: of what will never be answered an ensemble is no way out.
        """
        member, loop = self.members[position], asyncio.get_running_loop()
        self.asked.add(position)
        parameters = {**member.parameters, **self.request.parameters}
        request = replace(self.request, parameters=parameters, member=member.name)
        started = loop.time()
        try:
            reply = await member.backend.generate(request)
            if not isinstance(reply, Reply):
                raise BackendError(
                    f"the backend of {member.name!r} answered a {type(reply).__name__}: it must be a Reply"
                )
        except (Refused, Spent, Uncached):
            raise
        except BackendError as error:
            self.lost[position] = error
            return None
        taken = loop.time() - started if reply.latency_s is None else reply.latency_s
        self.spent_s[position] = taken
        ballot = self.read(position, reply if reply.latency_s is not None else replace(reply, latency_s=taken))
        self.answered[position] = ballot
        return ballot
