"""Adapters, the arms of an experiment, and the trainings behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.measures import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """The numbers of a training. Losses are in nats per counted token."""

    training_steps: int
    first_loss: float
    """The loss of the first step."""
    final_loss: float
    """Mean over the last tenth of the steps, since batches differ."""
    loss_reduction: float | None
    """1 - final / first; None if the first loss is not above 0, as that of a policy may be."""
    convergence_steps: int | None
    """The first step from which the loss stays near its end; None if it is not reduced, or still changes at the end."""
    largest_gradient_norm: float | None
    """None if the training service does not report it."""
    gradient_norms_finite: bool | None
    """False when a loss, a gradient or the weights became infinite or NaN, which ends a training; None as above."""


WEIGHTS = (".safetensors", ".gguf")
"""Endings of files that hold numbers of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestor:
    """A training behind the weights of an arm. What is not known is None."""

    weights: str | None
    """SHA-256 of the file with the weights, or their path on a service."""
    name: str | None = None
    """The adapter's name in the configuration when it was trained."""
    recipe: str | None = None
    recipe_sha256: str | None = None
    files: Mapping[str, str] | None = None
    """SHA-256 -> name of each file that its recipe has read or declared, without weights."""
    step: int | None = None
    """The step of weights that a recipe has kept before its end; None for the last one."""
    state: str | None = None
    """Path of the state on a service from which training can continue."""
    parent: str | None = None
    """SHA-256 of the weights that it started from, or the path of a state or weights on a service; None: the base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The lineage of a trained adapter: everything that determined its weights, and the course of its training."""

    adapter_sha256: str
    """Hash of the file next to it; empty if a service has the weights."""
    base: str
    base_sha256: str
    recipe: str
    recipe_sha256: str
    data: Mapping[str, str]
    """SHA-256 of each file that the recipe read; names count from the recipe's folder."""
    lora: Mapping[str, Any]
    seed: int
    hyperparameters: Mapping[str, Any]
    """All values that steps used of the loss, its settings, the number of rows, and Adam's settings but the learning rate."""
    git: Mapping[str, Any] | None
    parent: str | None
    """SHA-256 of the checkpoint that training continued from, or its path on a service."""
    result: TrainingResult
    losses: tuple[float, ...]
    gradient_norms: tuple[float | None, ...]
    learning_rates: tuple[float, ...]
    seconds: float
    stopped: str | None = None
    """Why training ended before its recipe did; such an adapter is used only if its path is given."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The adapter's `hyperparameters`: the keywords with which the recipe was called."""
    adapter: str = ""
    """The adapter's name in the configuration when it was trained."""
    checkpoint: str = ""
    """Path of the sampling weights on a service."""
    state: str = ""
    """Path of the state from which training can continue on a service."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each file that `trained_on` declares, by name."""
    kept: tuple[int, ...] = ()
    """The steps before the end of training whose weights were kept, each in a directory of its own with its lineage."""
    step: int | None = None
    """The step of kept weights. The losses and the result are those until then."""
    simulated: bool = False
    """True where a stand-in was trained under another model's name."""
    inherited: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 -> name of each file that the trainings before this one have read or declared."""
    ancestors: tuple[Ancestor, ...] = ()
    """The trainings before this one, as far as they are known, the last one first."""

    @property
    def ancestry(self) -> tuple[Ancestor, ...]:
        """This training and those before it, the last one first."""
        own = Ancestor(
            weights=self.checkpoint or self.adapter_sha256 or None,
            name=self.adapter or None,
            recipe=self.recipe,
            recipe_sha256=self.recipe_sha256,
            files=_without_weights(
                {sha256: name for names in (self.declared, self.data) for name, sha256 in names.items()}
            ),
            step=self.step,
            state=self.state or None,
            parent=self.parent,
        )
        return (own, *self.ancestors)

    @property
    def training_files(self) -> dict[str, str]:
        """SHA-256 -> name of each file that the weights were trained on: its own, those declared, and its parents'.

        Without weights that the recipe read, such as those of the adapter that it started from: they have no rows.
        """
        own = {sha256: name for names in (self.declared, self.data) for name, sha256 in names.items()}
        return _without_weights({**self.inherited, **own})


def _without_weights(files: Mapping[str, str]) -> dict[str, str]:
    return {sha256: name for sha256, name in files.items() if not name.endswith(WEIGHTS)}


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
    member_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The settings and parameters of each of them, as `settings` and `parameters` have those of one model."""
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
    ancestry: tuple[Ancestor, ...] = ()
    """The trainings behind its weights, those of its members or trainings one after the other; empty for a base."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The adapter's variables, as they were written. They are part of the identity."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The adapter's settings that say which model answers and how it is asked, such as `model` and `system`."""
    without_effect: str = ""
    """Why its weights change no reply of their base; empty where they do, or where that is not known."""
