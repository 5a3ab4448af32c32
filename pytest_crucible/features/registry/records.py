"""Records of the model registry: versions, the states that they have, and the entries of its log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from pytest_crucible.features.registry.suite_record import Demands
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.arms import Adapter, Arm

VersionState = Literal["draft", "candidate", "staged", "production", "retired", "rolled-back"]
Action = Literal["register", "promote", "retire", "roll back"]


_NUMBERED = re.compile(r"[\w.+-]+@\d+")


def is_numbered(name: str) -> bool:
    """Return whether an arm's name is that of a registered version, by its number.

    >>> is_numbered("claims@4"), is_numbered("claims@production")
    (True, False)
    """
    return _NUMBERED.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """Weights that were copied into the registry's folder, under their SHA-256."""

    sha256: str
    file: str
    """The name of the file in the folder of this hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a model, as it was registered. Nothing in it ever changes."""

    model: str
    number: int
    identity: str
    """The identity of the adapter when it was opened, which an arm with this version has too."""
    adapter: Adapter
    """The adapter's table; without the paths of copied weights."""
    weights: Mapping[str, StoredWeights] = field(default_factory=dict)
    """Option of the adapter -> the copied weights that it names."""
    lineage: Mapping[str, Any] | None = None
    steps: int | None = None
    """The optimiser steps that the weights held when they were registered; None where nothing states them."""

    @property
    def name(self) -> str:
        """The name under which the version is an adapter: `claims@4`."""
        return f"{self.model}@{self.number}"


SEED = "seed"
"""The parameter that a session adds to those of the adapter."""


def is_version_arm(arm: Arm, version: Version) -> bool:
    """Return whether an arm is this version: the same identity, and the same parameters but for the session's seed."""
    own = dict(version.adapter.parameters)
    return arm.identity == version.identity and without_session_seed(arm.parameters, own) == own


def without_session_seed(parameters: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return an arm's parameters without the seed, unless the adapter's own table has one."""
    return {name: value for name, value in parameters.items() if name != SEED or SEED in own}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One change of one version's state."""

    at: str
    action: Action
    model: str
    number: int
    state: VersionState
    """The state after the change."""
    former: VersionState | None = None
    """The state before it; None for a version that was registered."""
    by: str = ""
    """The user of the operating system."""
    run: str | None = None
    """The run that is the proof of a promotion."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What the proof showed when it was recomputed."""
    forced: tuple[str, ...] = ()
    """The requirements that the proof does not meet, if --force promoted nevertheless."""
    why: str = ""
    digest: str = ""
    """The SHA-256 of the version's stored row, for a registration; else empty."""

    @property
    def version(self) -> str:
        return f"{self.model}@{self.number}"


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
