"""Adapters, and the arms of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.records.training import TrainingResult
from pytest_crucible.records.types import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A model: a name from the configuration (or a URI) and the settings to reach it."""

    name: str
    backend: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """The backend's own settings: where the model is."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters: temperature, max_tokens and the like."""
    asking: Mapping[str, Any] = field(default_factory=dict)
    """Settings of requests, whichever backend it has: retries, limits, hedges, prices."""
    trained_on: tuple[str, ...] = ()
    """Declared training files, relative to the configuration. They change no reply."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Values for test functions: `prompt` is the argument with this name, the others are `sampler.variables`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that features have read, by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTraining:
    """One of several trainings of a recipe that are an arm together."""

    name: str
    """The name of its adapter, such as `v2-seed1`."""
    seed: int
    identity: str
    result: TrainingResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """An adapter's part in an experiment. Equal identities (and parameters) are the same checkpoint."""

    name: str
    role: Role
    adapter: str
    identity: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    simulated: bool = False
    recorded: bool = False
    """Its replies are those of a file: there is no model to call again."""
    members: tuple[str, ...] = ()
    """The adapters that answer together, where it is an ensemble."""
    stored_run: str | None = None
    """The run whose stored replies this arm is, when it was named as `run:ID`."""
    training: TrainingResult | None = None
    """The training of its weights, where it is known. It is not part of the arm's identity: the weights are."""
    step: int | None = None
    """The step of this training whose weights these are, where its recipe kept them before the end."""
    trainings: tuple[ArmTraining, ...] = ()
    """The trainings that answer each sample in turn, where its adapter has `seeds`; empty for one model."""
    trained_on: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 -> name of each file that it was trained on, as far as that is known or declared."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The adapter's variables, as they were written. They are part of the identity."""
