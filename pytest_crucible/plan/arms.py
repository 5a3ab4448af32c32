"""Checks of an experiment's arms, and the order in which they are sampled."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

from pytest_crucible.records import Arm, Unit
from pytest_crucible.records.errors import SpecError


def check_arms(arms: Sequence[Arm]) -> None:
    """Raise SpecError for two arms with one name, and for two names of one checkpoint.

    The difference of a checkpoint to itself is noise by construction.
    """
    for k, baseline in enumerate(arms):
        for other in arms[:k]:
            if other.name == baseline.name:
                raise SpecError(f"{baseline.name!r} is named twice: compare an adapter with another one")
            if (other.identity, dict(other.parameters)) == (baseline.identity, dict(baseline.parameters)):
                raise SpecError(
                    f"adapters {other.name!r} and {baseline.name!r} are the same checkpoint "
                    f"({_short_identity(baseline.identity)}): compare two that differ"
                )


def _short_identity(identity: str) -> str:
    """The beginning of a digest; anything else whole."""
    return identity[:12] if re.fullmatch("[0-9a-f]{16,}", identity) else identity


def interleave_units(samples: int, arms: Sequence[int], repeats: int, *, seed: int) -> Iterator[Unit]:
    """Yield the units of the original samples: all arms of a sample side by side, in an order drawn for each sample.

    So a slow hour of the server hits both arms. Lazy: a million samples never sit in memory as tasks.
    """
    # A generator of its own: the order must not depend on what else draws random numbers in this process.
    draw = random.Random(seed)
    units = [(arm, repeat) for repeat in range(repeats) for arm in arms]
    for position in range(samples):
        draw.shuffle(units)
        for arm, repeat in units:
            yield Unit(position, 0, arm, repeat)
