"""Numbers of an arm that are known before it is sent a sample, such as the loss of its training. Targets may name them.

A metric of the same name goes before such a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

from pytest_crucible.features import load_rows

if TYPE_CHECKING:
    from pytest_crucible.records import Arm, MetricFacts, Target, TargetResult


class EvaluateKnown(Protocol):
    def __call__(self, target: Target, arm: Arm, *, alpha: float, is_fixed: bool) -> TargetResult:
        """Return the result of a target. `is_fixed` declares that it is about the arm's own sources alone."""


@dataclass(frozen=True)
class KnownNumber:
    """A number that is known before sampling. A row that a feature adds to `known_numbers`."""

    facts: MetricFacts
    """Its name, with the values that it can have."""
    source: str
    """What has the number, and is counted instead of samples: `training`. It is the statistic of its estimate."""
    evaluate: EvaluateKnown


@cache
def known_numbers() -> Mapping[str, KnownNumber]:
    """Return the numbers by name, those of features that are left out, too."""
    return {number.facts.name: number for _, number in load_rows("known_numbers")}


def targets_on_samples(targets: Iterable[Target]) -> list[Target]:
    """Return the targets that samples decide."""
    return [target for target in targets if target.metric not in known_numbers()]


@cache
def known_sources() -> frozenset[str]:
    """Return what the numbers are of."""
    return frozenset(number.source for number in known_numbers().values())
