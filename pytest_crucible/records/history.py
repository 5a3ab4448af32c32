"""Records of earlier runs: summaries, the variability of paired differences, and points of a trend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pytest_crucible.records.statistics import Estimate

Change = Literal["", "proven", "other samples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run in a list of runs."""

    id: str
    started: str
    finished: str | None
    status: str
    """`running`, `finished` or `interrupted`; a killed run stays `running`."""
    exit_status: int | None
    commit: str | None
    dirty: bool | None
    experiments: tuple[str, ...]
    """Their nodeids."""
    arms: tuple[str, ...]
    """The names of the candidate and the baselines."""
    verdicts: Mapping[str, int]
    """State to count."""
    tags: tuple[str, ...]

    @property
    def all_met(self) -> bool:
        """Return whether the run finished with at least one verdict, and every verdict is met."""
        return self.status == "finished" and set(self.verdicts) == {"met"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVariability:
    """The variability of the differences between candidate and baseline from sample to sample."""

    nodeid: str
    metric: str
    baseline: str
    pairs: int
    """0 where the variability is assumed, not measured."""
    deviation: float
    """Standard deviation of the differences."""
    discordance: float | None
    """Share of samples on which the arms disagree, for a binary metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """A metric in one of many runs."""

    run: str
    started: str
    estimate: Estimate
    change: Change
    """Why the trend changes at this point; empty where it does not."""
