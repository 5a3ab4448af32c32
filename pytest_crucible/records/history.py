"""What was run before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pytest_crucible.records.statistics import Estimate

Change = Literal["", "proven", "other samples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListed:
    """One run as a list tells of it."""

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
    """The candidate and the baselines that were asked."""
    verdicts: Mapping[str, int]
    """State to count."""
    tags: tuple[str, ...]

    @property
    def all_met(self) -> bool:
        """Finished, and every verdict is met; at least one was given."""
        return self.status == "finished" and set(self.verdicts) == {"met"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSpread:
    """How much candidate and baseline differed from sample to sample."""

    nodeid: str
    metric: str
    baseline: str
    pairs: int
    """0: it is assumed."""
    deviation: float
    """Standard deviation of the differences."""
    discordance: float | None
    """Share of samples on which the arms disagree, where the metric is yes or no."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """A metric in one of many runs."""

    run: str
    started: str
    estimate: Estimate
    change: Change
    """Why a new stretch begins here."""
