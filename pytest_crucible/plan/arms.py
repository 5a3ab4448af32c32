"""Checks of an experiment's arms, and the units that are left to request, in their order."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pytest_crucible.records import Arm, Plan, Unit
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


@dataclass(frozen=True)
class OpenUnits:
    """The units that are left to request. An arm of a stored run has replies already, or never will."""

    plan: Plan
    done: list[set[tuple[int, int]]]
    """Arm -> (position, repeat) of each stored reply, repeats counted over all factors."""
    seed: int
    order: Sequence[int] | None = None
    """The samples to send, in their order; None for all of them in that of the dataset."""
    twins: Sequence[frozenset[int]] = ()
    """The positions of the samples that each variant applies to."""

    def of_round(self, number: int) -> Iterator[Unit]:
        """Yield the units of a round; rounds begin one after the other."""
        draws = [self.plan.draws(arm) for arm in range(len(self.plan.arms))]
        of_sample = [
            (variant, arm, repeat)
            for variant in range(draws[0].prompts * (1 + len(self.twins)))
            for arm in self._open_arms()
            for repeat in draws[arm].repeats_of_round(number)
        ]
        first = number * draws[0].repeats
        for unit in interleave_units(self._positions(), of_sample, seed=self.seed, first=first):
            place, twin = draws[unit.arm].place(unit.variant, unit.repeat), draws[unit.arm].twin(unit.variant)
            applies = not twin or unit.position in self.twins[twin - 1]
            if applies and (unit.position, place) not in self.done[unit.arm]:
                yield unit

    def count_open(self, number: int) -> list[int]:
        """Return how many units of a round are left, by arm."""
        planned, positions = [0] * len(self.plan.arms), set(self._positions())
        sent = len(positions) + sum(len(positions & of_variant) for of_variant in self.twins)
        for arm in self._open_arms():
            draws = self.plan.draws(arm)
            of_round = draws.size // draws.rounds
            stored = sum(
                position in positions and repeat // draws.repeats % draws.rounds == number
                for position, repeat in self.done[arm]
            )
            planned[arm] = sent * of_round - stored
        return planned

    def _positions(self) -> Sequence[int]:
        return range(self.plan.selected) if self.order is None else self.order

    def _open_arms(self) -> list[int]:
        return [number for number, arm in enumerate(self.plan.arms) if arm.stored_run is None]
