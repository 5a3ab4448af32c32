"""Checks of an experiment's arms, and the order in which they are sampled."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from pytest_crucible.records import Arm, Unit
from pytest_crucible.records.errors import SpecError


def check_arms(arms: Sequence[Arm], typed: Mapping[str, str] = MappingProxyType({})) -> None:
    """Raise SpecError for two arms with one name, for two names of one checkpoint, and for two trainings that are one.

    The difference of a checkpoint to itself is noise by construction. `typed` has the name on the command line of an arm whose
    own is another one: `production` by `claims@4`.
    """
    for arm in arms:
        _check_trainings(arm)
    for k, baseline in enumerate(arms):
        for other in arms[:k]:
            if other.name == baseline.name:
                raise SpecError(
                    f"{_quote_name(baseline.name, typed)} is named twice: compare an adapter with another one"
                )
            common = _identities(other) & _identities(baseline)
            if common and dict(other.parameters) == dict(baseline.parameters):
                names = " and ".join(_quote_name(arm.name, typed) for arm in (other, baseline))
                raise SpecError(
                    f"adapters {names} are the same checkpoint "
                    f"({_short_identity(min(common))}): compare two that differ"
                )


def _quote_name(name: str, typed: Mapping[str, str]) -> str:
    """Return an arm's name as messages quote it: `'production' (claims@4)` where `production` was typed.

    >>> _quote_name("claims@4", {"claims@4": "production"}), _quote_name("v1", {})
    ("'production' (claims@4)", "'v1'")
    """
    return f"{typed[name]!r} ({name})" if name in typed else repr(name)


def _identities(arm: Arm) -> set[str]:
    return {training.identity for training in arm.trainings} or {arm.identity}


def _check_trainings(arm: Arm) -> None:
    for k, training in enumerate(arm.trainings):
        for other in arm.trainings[:k]:
            if other.identity == training.identity:
                raise SpecError(
                    f"the trainings {other.name!r} and {training.name!r} are the same checkpoint: let the recipe use "
                    "trainer.seed, or remove seeds"
                )


def _short_identity(identity: str) -> str:
    """Return the beginning of a digest; any other identity as it is."""
    return identity[:12] if re.fullmatch("[0-9a-f]{16,}", identity) else identity


def interleave_units(
    positions: Iterable[int], of_sample: Sequence[tuple[int, int, int]], *, seed: int, first: int = 0
) -> Iterator[Unit]:
    """Yield the units of one round: all (prompt, arm, repeat) of a sample side by side, in an order drawn for each sample.

    So a slow hour of the server hits both arms. `first` is the round's first repeat. Lazy: a million samples never sit in
    memory as tasks.
    """
    # A generator of its own: the order must not depend on what else draws random numbers in this process.
    draw = random.Random(f"{seed}/{first}" if first else seed)
    units = list(of_sample)
    for position in positions:
        draw.shuffle(units)
        for unit in units:
            yield Unit(position, *unit)
