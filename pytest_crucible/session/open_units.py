"""The units of an experiment that have no stored reply yet, round by round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_crucible.plan.arms import interleave_units
from pytest_crucible.records import Plan, Unit


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
