"""What a recipe is handed: the engine's trainer, which writes down by itself how training goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.embedded.adam import AdamParams, NotFinite
from pytest_crucible.embedded.batches import Datum
from pytest_crucible.embedded.checkpoints import load_sampler
from pytest_crucible.embedded.engine import Engine, Trainer
from pytest_crucible.embedded.lora import Adapter, LoraSpec
from pytest_crucible.embedded.tokens import Tokenizer
from pytest_crucible.embedded.training import Trained
from pytest_crucible.training.rows import datums


class TrainingStopped(ValueError):
    """A step that could not be made: a loss or weights that are not finite, or data that mean nothing."""


@dataclass
class Log:
    """What every step did."""

    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """Read by each step, prompts included."""
    seconds: list[float] = field(default_factory=list)
    """That each step took, from its first batch on."""
    settings: dict[str, set[Any]] = field(default_factory=dict)
    finite: bool = True
    """False once a loss, a gradient or the weights were not."""

    def note(self, name: str, value: Any) -> None:
        """A setting that was used; steps may use different ones."""
        self.settings.setdefault(name, set()).add(value)


class RecipeTrainer(Trainer):
    """An adapter in training, with `tokenizer`, `seed`, `datums(rows)` and `step(batch)`.

    A step that fails raises TrainingStopped, and `adapter` is then the last whose loss was finite.
    """

    def __init__(
        self,
        engine: Engine,
        spec: LoraSpec,
        *,
        folder: Path,
        watch: Callable[[Log], None] = lambda log: None,
    ) -> None:
        """`folder` is where relative paths of data begin; `watch` is told after each step."""
        super().__init__(engine, Adapter.initial(spec, engine.shape))
        self.seed = spec.seed
        self.log = Log()
        self.parent: Path | None = None
        self.files: set[Path] = set()
        self._folder = folder
        self._watch = watch
        self._good = _copy(self.adapter)
        self._sums = [0.0, 0.0]
        self._tokens = 0
        self._began: float | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """Of the base model."""
        return self.engine.tokenizer

    def datums(self, rows: str | Path | Iterable[Mapping[str, Any]]) -> list[Datum]:
        """Rows to train on, of which only the completion counts: a JSONL file beside the recipe, or mappings.

        A row has `prompt` and `completion`, or `messages`, the last of which is the completion. Raises DatasetError.
        """
        if isinstance(rows, str | Path):
            rows = self._folder / Path(rows).expanduser()
            self.files.add(rows)
        return datums(rows, self.tokenizer, self.engine.shape.context)

    def start_from(self, checkpoint: str | Path) -> None:
        """Go on from an adapter that was trained before, of whatever rank: it is this one's parent. Before the first step."""
        if self.log.losses or any(self._sums):
            raise ValueError("training has begun: call start_from before the first step")
        place = self._folder / Path(checkpoint).expanduser()
        self.adapter = load_sampler(place, self.engine.shape, self.engine.base_sha256)
        self._good, self._folded, self.parent = _copy(self.adapter), None, place

    def step(
        self,
        batch: Sequence[Datum],
        loss: str = "cross_entropy",
        *,
        learning_rate: float = 1e-3,
        config: Mapping[str, float] | None = None,
        **adam: float,
    ) -> float:
        """One step: the gradients of a batch and Adam's move along them. Returns the loss per counted token.

        `config` is the loss's, further keywords are those of `AdamParams`. Raises TypeError for others.
        """
        if unknown := sorted(set(adam) - set(AdamParams.__dataclass_fields__)):
            taken = ", ".join(("batch", "loss", *AdamParams.__dataclass_fields__, "config"))
            raise TypeError(f"step has no argument {unknown[0]!r}: it takes {taken}")
        self.forward_backward(batch, loss, config)
        self.optim_step(AdamParams(learning_rate=learning_rate, **adam))
        return self.log.losses[-1]

    def forward_backward(
        self, data: Sequence[Datum], loss: str, config: Mapping[str, float] | None = None, *, forward_only: bool = False
    ) -> Trained:
        """As the engine's; gradients of several calls add up to one step."""
        if not forward_only:
            self._began = self._began or time.perf_counter()
        try:
            found = super().forward_backward(data, loss, config, forward_only=forward_only)
        except ValueError as error:
            self.adapter, self._folded = self._good, None
            raise self._stopped(error) from None
        if not forward_only:
            self._good = _copy(self.adapter)
            self._sums[0] += float(found.loss)
            self._sums[1] += _counted(data)
            self._tokens += sum(len(one.tokens) for one in data)
            self.log.note("loss", loss)
            self.log.note("rows", len(data))
            for name, value in (config or {}).items():
                self.log.note(name, value)
        return found

    def optim_step(self, params: AdamParams | None = None) -> dict[str, float]:
        """As the engine's."""
        used = params or AdamParams()
        try:
            with np.errstate(all="ignore"):  # what is not finite is told below
                metrics = super().optim_step(used)
        except ValueError as error:
            raise self._stopped(error) from None
        if not all(np.isfinite(one).all() for one in self.adapter.factors.values()):
            self.adapter = self._good
            raise self._stopped(NotFinite("the step made weights that are not finite"))
        self._write_down(metrics["grad_norm:mean"], used)
        self._watch(self.log)
        return metrics

    def _stopped(self, error: ValueError) -> TrainingStopped:
        if not isinstance(error, NotFinite):
            return TrainingStopped(str(error))
        self.log.finite = False
        return TrainingStopped(f"{error} (a lower learning rate may help, or grad_clip_norm)")

    def _write_down(self, norm: float, params: AdamParams) -> None:
        total, counted = self._sums
        self._sums = [0.0, 0.0]
        self.log.losses.append(total / counted if counted else total)
        self.log.gradient_norms.append(float(norm))
        self.log.tokens.append(self._tokens)
        now = time.perf_counter()
        self.log.seconds.append(now - (self._began or now))
        self._tokens, self._began = 0, None
        settings = asdict(params)
        self.log.learning_rates.append(float(settings.pop("learning_rate")))
        for name, value in settings.items():
            self.log.note(name, value)


def _copy(adapter: Adapter) -> Adapter:
    return Adapter(adapter.spec, {name: one.copy() for name, one in adapter.factors.items()})


def _counted(data: Sequence[Datum]) -> float:
    """How many tokens count; rows, where a loss weighs them by advantages."""
    return sum(float(one.inputs["weights"].sum()) if "weights" in one.inputs else 1.0 for one in data)
