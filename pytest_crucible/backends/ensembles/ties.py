"""Who wins of answers that are equally good."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from pytest_crucible.records import Request


class Tie(Protocol):
    """A rule for ties: one of the leading answers, or None."""

    def __call__(self, leaders: Sequence[str], request: Request, seed: int, /) -> str | None: ...


def first(leaders: Sequence[str], request: Request, seed: int, /) -> str | None:
    """The one that the member listed first gave."""
    return leaders[0]


def abstain(leaders: Sequence[str], request: Request, seed: int, /) -> str | None:
    """None of them."""
    return None


def at_random(leaders: Sequence[str], request: Request, seed: int, /) -> str | None:
    """Drawn by seed, sample and repeat: the same in every run, and in whichever order members and samples come."""
    return random.Random(f"{seed}/{request.epoch}/{request.sample}").choice(sorted(leaders))


TIES: Mapping[str, Tie] = {"first": first, "abstain": abstain, "random": at_random}
