"""Checks of an experiment's arms, and the units that are left to request, in their order."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from pytest_crucible.quick_dataclass import dataclass
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
        if len(units) > 1:
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
            of_arm = draws[unit.arm]
            twin = of_arm.twin(unit.variant) if unit.variant else 0
            applies = not twin or unit.position in self.twins[twin - 1]
            if applies and (unit.position, of_arm.place(unit.variant, unit.repeat)) not in self.done[unit.arm]:
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


@dataclass(frozen=True)
class ListedUnits:
    """The units of a list that are left to request, in its order, in place of all of a plan."""

    plan: Plan
    done: list[set[tuple[int, int]]]
    """Arm -> (position, repeat) of each stored reply, repeats counted over all factors."""
    units: Sequence[Unit]

    def of_round(self, number: int) -> Iterator[Unit]:
        """Yield the units, all of which are in the first round."""
        for unit in () if number else self.units:
            place = self.plan.draws(unit.arm).place(unit.variant, unit.repeat)
            if (unit.position, place) not in self.done[unit.arm]:
                yield unit

    def count_open(self, number: int) -> list[int]:
        """Return how many units are left, by arm."""
        left = Counter(unit.arm for unit in self.of_round(number))
        return [left[arm] for arm in range(len(self.plan.arms))]


def look_order(ids: Sequence[str], groups: Sequence[str | None]) -> list[int]:
    """Return the positions of the samples in the order in which they are sent; the samples of a group are neighbours.

    It is the same in every run and on every machine, so that stored replies are those of the samples that come first.

    >>> look_order(["a", "b", "c"], [None, None, None])
    [2, 1, 0]
    """
    # A group is one value of a look, so it has to be complete before the next one begins.
    keys = [(_digest(name if group is None else group), _digest(name)) for name, group in zip(ids, groups, strict=True)]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def complete_length(
    order: Sequence[int], groups: Sequence[str | None], is_complete: Callable[[int], bool], start: int = 0
) -> int:
    """Return how many samples from the beginning of the order are complete, in whole groups. Those before `start` are.

    >>> complete_length([2, 0, 1], ["b", "b", "a"], {2, 0}.__contains__)
    1
    """
    end = start
    while end < len(order) and is_complete(order[end]):
        end += 1
    if end < len(order):
        # The group that the next sample belongs to has begun, but is not complete.
        while end > start and _same_group(groups, order[end - 1], order[end]):
            end -= 1
    return end


def _same_group(groups: Sequence[str | None], first: int, second: int) -> bool:
    return groups[first] is not None and groups[first] == groups[second]
