"""The gate of a model: what a run has to show before a version is promoted, and what a suite was when it was collected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Demands = Mapping[str, str]
"""Everything that can make a verdict easier to meet, by name, as text in full precision: `comparison of exact_match` ->
`non-inferior by 0.05`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRecord:
    """The part of a suite that pytest collected, before any request was sent."""

    settings: Demands
    """The settings of the session that decide how hard its verdicts are to meet."""
    experiments: Mapping[str, Demands] = field(default_factory=dict)
    """The experiments and joined tests with a target or a comparison, by nodeid."""
    without_verdict: tuple[str, ...] = ()
    """Experiments that only show numbers: those for practice, and those without a target and a comparison."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Experiments, and files that may hold some, that give no verdict or whose verdict is not believed, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGate:
    """The demands that a run has to meet before a version of the model is promoted."""

    suite: tuple[str, ...]
    """The arguments with which pytest collects it, from its root directory; empty for everything that pytest collects."""
    variables: tuple[str, ...] = ()
    """Variables of the environment that it is collected with, besides those of every process."""
    settings: Demands
    experiments: Mapping[str, Demands]
    rules: Demands
    """The table `[registry]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEntry:
    """One row of the registry's log that gives a model its first gate, or another one."""

    at: str
    model: str
    number: int
    """Of the model's gates, from 1."""
    gate: ModelGate
    by: str = ""
    why: str = ""

    @property
    def name(self) -> str:
        return f"gate {self.number} of {self.model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateChange:
    """One demand that differs between two gates, or between a gate and what was run."""

    place: str
    """The nodeid of the experiment; empty for a setting of the session, `[registry]` for a rule."""
    demand: str
    """Its name; empty where the whole experiment is missing on one side."""
    old: str | None
    """None where it is missing."""
    new: str | None

    @property
    def text(self) -> str:
        """Return the place and the demand, as a table names them."""
        return " ".join(part for part in (self.place, self.demand) if part)
