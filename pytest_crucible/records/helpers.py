"""Helper experiments: they serve another one, such as the half of its samples that chooses a candidate, and give no verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible.records.outcomes import ArmOutcomes
from pytest_crucible.records.plan import Plan

CHOOSING = " (choosing "
"""What the name of a helper that chooses has between its test and the family that it chooses from."""


def choosing_nodeid(test: str, family: str) -> str:
    """Return the name under which the run store has the replies of a test's choosing half."""
    return f"{test}{CHOOSING}{family})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperReplies:
    """The stored replies of a helper experiment."""

    plan: Plan
    answers: tuple[ArmOutcomes, ...]
    groups: Sequence[str | None]
    sample_ids: Sequence[str]
    known_kinds: Mapping[str, str]
