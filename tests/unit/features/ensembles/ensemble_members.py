"""Ensembles whose members answer what a test says, when it says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pytest_crucible.features.ensembles.ensemble import Ensemble, Member, make_ensemble
from pytest_crucible.features.ensembles.settings import read_rules
from pytest_crucible.features.ensembles.votes import Ballot
from pytest_crucible.records import Adapter, Event, Reply, Request

ASKED = Request(input="2 + 2", sample="q1", repeat=0, parameters={"temperature": 0.0}, experiment="test_it", arm="trio")


class Saying:
    """Answers every request alike: with a text, a Reply or an error, after so many seconds."""

    simulated = False

    def __init__(self, reply: Any, *, after: float = 0.0, identity: str = "") -> None:
        self.identity = identity or repr((reply, after))
        self.reply = reply
        self.after = after
        self.requests: list[Request] = []
        self.cancelled = 0

    async def generate(self, request: Request) -> Reply:
        self.requests.append(request)
        try:
            await asyncio.sleep(self.after)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply if not isinstance(self.reply, str) else Reply(text=self.reply)


def sure(text: str, *logprobs: float, **facts: Any) -> Reply:
    """A reply that says how probable its tokens were."""
    return Reply(text=text, logprobs=logprobs, **facts)


def make(*members: Any, events: list[Event] | None = None, **settings: Any) -> Ensemble:
    """`trio` of v1, v2, ...: each a backend, or what it says."""
    backends = [
        member if hasattr(member, "generate") else Saying(member, identity=f"v{k}")
        for k, member in enumerate(members, 1)
    ]
    names = [f"v{k}" for k, _ in enumerate(members, 1)]
    adapter = Adapter(name="trio", backend="ensemble", options={"ensemble": names, **settings})
    ensemble_members = [Member(name=name, backend=backend) for name, backend in zip(names, backends, strict=True)]
    return make_ensemble("trio", ensemble_members, read_rules(adapter), (events if events is not None else []).append)


def ballots(*answers: str | None, weights: Sequence[float] | None = None) -> list[Ballot]:
    """Votes of v1, v2, ... for these answers; None abstains."""
    return [
        Ballot(
            member=f"v{k}",
            reply=Reply(text=answer or "?"),
            answer=answer,
            weight=1.0 if weights is None else weights[k - 1],
        )
        for k, answer in enumerate(answers, start=1)
    ]
