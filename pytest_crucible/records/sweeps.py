"""A sweep as it was planned: its grid, members and halves. Nothing in it depends on a reply."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pytest_crucible.records.serialize import canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepMember:
    """One member of a family, which competes to be the candidate."""

    name: str
    settings: Mapping[str, Any]
    """Dotted key of the adapter -> its value in this member."""
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The competition of a family's members."""

    family: str
    test: str
    """Nodeid of the experiment that chooses, on its choosing half."""
    by: str
    """The metric that chooses."""
    confirm: float
    """The share of samples that is kept for the verdicts."""
    drop: str
    grid: Mapping[str, tuple[Any, ...]]
    """Dotted key of the adapter -> its values; the last key varies fastest."""
    members: tuple[SweepMember, ...]
    """Members in the order of the grid, or of the search's trials."""
    choosing: int
    """Samples of the choosing half."""
    choosing_sha256: str
    confirming: int
    """Samples of the confirming half."""
    looks: tuple[int, ...]
    """The numbers of samples after which members may be dropped."""
    trials: int = 0
    """The number of settings that a search proposes; 0 for a grid. Its members are then the trials until now."""
    seed: int = 0
    """The seed of the search."""

    @property
    def sha256(self) -> str:
        """The hash of everything that the choice depends on, but the replies."""
        return hashlib.sha256(canonical(asdict(self)).encode()).hexdigest()

    @property
    def nodeid(self) -> str:
        """The name under which the run store has the replies of the choosing half."""
        return choosing_nodeid(self.test, self.family)

    @property
    def looks_subject(self) -> str:
        """The subject of the decisions on which members go on."""
        return f"looks of {self.family}"

    @property
    def winner_subject(self) -> str:
        """The subject of the decision about the winner."""
        return f"winner of {self.family}"

    @property
    def trials_subject(self) -> str:
        """The subject of the decisions on the settings of trials."""
        return f"trials of {self.family}"


def choosing_nodeid(test: str, family: str) -> str:
    """Return the name under which the run store has the replies of a test's choosing half."""
    return f"{test}{CHOOSING}{family})"


CHOOSING = " (choosing "
