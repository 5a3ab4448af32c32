"""The choosing half of a sweep after its run: the members' replies, and which members the looks dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible.records.outcomes import ArmOutcomes
from pytest_crucible.records.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepLook:
    """One look of a sweep."""

    samples: int
    """The number of samples, from the beginning of the look order, that it rests on."""
    kept: tuple[str, ...]
    """The members that went on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoosingHalf:
    """The replies of a family's members, and the decisions based on them."""

    plan: Plan
    """Its arms are the members, in grid order."""
    answers: tuple[ArmOutcomes, ...]
    groups: Sequence[str | None]
    sample_ids: Sequence[str]
    known_kinds: Mapping[str, str]
    looks: tuple[SweepLook, ...]
    winner: str
    """Empty until it is known."""

    def looked_at(self, member: str) -> int:
        """Return the number of samples, in look order, that decided about a member: it was dropped, or the last one."""
        # Where nothing is kept for the verdicts, the last one answers all samples.
        ends = self.plan.sweep is None or self.plan.sweep.confirm > 0
        decided = (look.samples for look in self.looks if member not in look.kept or (ends and len(look.kept) == 1))
        return next(decided, len(self.groups))
