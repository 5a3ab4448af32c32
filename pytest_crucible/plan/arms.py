"""Which arms an experiment has, and in which order they are asked."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

from pytest_crucible.errors import SpecError
from pytest_crucible.records import Arm


def check_arms(arms: Sequence[Arm]) -> None:
    """Refuse two arms with one name, and two names for one checkpoint: their difference would be noise by construction."""
    for k, baseline in enumerate(arms):
        for other in arms[:k]:
            if other.name == baseline.name:
                raise SpecError(f"{baseline.name!r} is asked for twice: compare an adapter with another one")
            if (other.identity, dict(other.parameters)) == (baseline.identity, dict(baseline.parameters)):
                raise SpecError(
                    f"adapters {other.name!r} and {baseline.name!r} are the same checkpoint "
                    f"({_shown(baseline.identity)}): compare two that differ"
                )


def _shown(identity: str) -> str:
    """The beginning of a digest; anything else whole."""
    return identity[:12] if re.fullmatch("[0-9a-f]{16,}", identity) else identity


def interleaved(samples: int, arms: Sequence[int], epochs: int, *, seed: int) -> Iterator[tuple[int, int, int]]:
    """Yield (position, arm, epoch): all arms of a sample side by side, in an order drawn anew for each.

    So a slow hour of the server hits both arms. Lazy: a million samples never sit in memory as tasks.
    """
    draw = random.Random(seed)
    units = [(arm, epoch) for epoch in range(epochs) for arm in arms]
    for position in range(samples):
        draw.shuffle(units)
        for arm, epoch in units:
            yield position, arm, epoch
