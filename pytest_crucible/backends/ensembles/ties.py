"""Rules for ties between answers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from pytest_crucible.records import Request


class Tie(Protocol):
    """A rule for ties: returns one of the leading answers, or None."""

    def __call__(self, leaders: Sequence[str], request: Request, seed: int, /) -> str | None: ...


def first(leaders: Sequence[str], request: Request, seed: int, /) -> str | None:
    """Return the answer that was given first."""
    return leaders[0]


def abstain(leaders: Sequence[str], request: Request, seed: int, /) -> str | None:
    """Return None: a tie has no winner."""
    return None


def at_random(leaders: Sequence[str], request: Request, seed: int, /) -> str | None:
    """Draw one by seed, sample and repeat: the same in every run, whatever the order of members and samples."""
    # Sorted: the draw must not depend on the order in which members answered.
    return random.Random(f"{seed}/{request.repeat}/{request.sample}").choice(sorted(leaders))


TIES: Mapping[str, Tie] = {"first": first, "abstain": abstain, "random": at_random}
