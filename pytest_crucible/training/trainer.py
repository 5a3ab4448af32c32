"""What a recipe is handed: a trainer, which writes down by itself how training goes."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.embedded.adam import AdamParams, NotFinite
from pytest_crucible.embedded.batches import Datum
from pytest_crucible.embedded.lora import LoraSpec
from pytest_crucible.embedded.training import Trained
from pytest_crucible.training.encoding import Encoder
from pytest_crucible.training.log import Log, TrainingStopped
from pytest_crucible.training.rows import datums

GRADIENT_NORM = "grad_norm:mean"
"""What Tinker calls it."""


@dataclass(frozen=True)
class Kept:
    """Where the weights of an adapter are: in a file of this hash, or with a service."""

    adapter_sha256: str = ""
    checkpoint: str = ""
    state: str = ""


class RecipeTrainer(ABC):
    """An adapter in training, with `tokenizer`, `seed`, `datums(rows)` and `step(batch)`.

    A step that fails raises TrainingStopped; what is kept then is the last adapter that is known to be good.
    """

    def __init__(
        self,
        spec: LoraSpec,
        encoder: Encoder,
        *,
        folder: Path,
        context: int | None,
        watch: Callable[[Log], None] = lambda log: None,
    ) -> None:
        """`folder` is where relative paths of data begin; `watch` is told after each step."""
        self.spec, self.seed = spec, spec.seed
        self.log = Log()
        self.parent: str | None = None
        """SHA-256 or path of the checkpoint that training went on from."""
        self.files: set[Path] = set()
        self._encoder, self._context = encoder, context
        self._folder = folder
        self._watch = watch
        self._sums = [0.0, 0.0]
        self._tokens = 0
        self._began: float | None = None

    @property
    def tokenizer(self) -> Any:
        """Of the base model."""
        return self._encoder.tokenizer

    def datums(self, rows: str | Path | Iterable[Mapping[str, Any]]) -> list[Datum]:
        """Rows to train on, of which only the completion counts: a JSONL file beside the recipe, or mappings.

        A row has `prompt` and `completion`, or `messages`, the last of which is the completion. Raises DatasetError.
        """
        if isinstance(rows, str | Path):
            rows = self._folder / Path(rows).expanduser()
            self.files.add(rows)
        return datums(rows, self._encoder, self._context)

    def start_from(self, checkpoint: str | Path) -> None:
        """Go on from an adapter that was trained before: it is this one's parent. Before the first step."""
        if self.log.losses or any(self._sums):
            raise ValueError("training has begun: call start_from before the first step")
        self.parent = self._load(checkpoint)

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
        """Loss, log-probability of every target, and gradients, which are added to those since the last step."""
        if not forward_only:
            self._began = self._began or time.perf_counter()
        try:
            found = self._pass(data, loss, config or {}, forward_only=forward_only)
        except ValueError as error:
            raise self._stopped(error) from None
        if not forward_only:
            self._remember()
            self._sums[0] += float(found.loss)
            self._sums[1] += _counted(data)
            self._tokens += sum(len(one.tokens) for one in data)
            for name, value in {"loss": loss, "rows": len(data), **(config or {})}.items():
                self.log.note(name, value)
        return found

    def optim_step(self, params: AdamParams | None = None) -> dict[str, float]:
        """Move the adapter along the gradients, and forget them."""
        used = params or AdamParams()
        try:
            metrics = self._move(used)
        except ValueError as error:
            raise self._stopped(error) from None
        self._write_down(metrics.get(GRADIENT_NORM), used)
        self._watch(self.log)
        return metrics

    # -- what trainers of different bases do in their own way ---------------------------------------------------------

    @abstractmethod
    def sampler(self) -> Any:
        """The adapter as it is now, to sample from."""

    @abstractmethod
    def save(self, folder: Path) -> Kept:
        """Keep the adapter; of one that stopped, the last good one. What is a file is written to the folder."""

    @abstractmethod
    def _pass(self, data: Sequence[Datum], loss: str, config: Mapping[str, float], *, forward_only: bool) -> Trained:
        """Raises ValueError for what cannot be trained on, NotFinite for a loss that is not."""

    @abstractmethod
    def _move(self, params: AdamParams) -> dict[str, float]:
        """Raises ValueError without gradients, NotFinite for weights that are not finite."""

    @abstractmethod
    def _remember(self) -> None:
        """The weights as they are now have given a finite loss."""

    @abstractmethod
    def _load(self, checkpoint: str | Path) -> str:
        """Take the weights of a checkpoint; returns what the lineage calls it."""

    # -- the log ------------------------------------------------------------------------------------------------------

    def _stopped(self, error: ValueError) -> TrainingStopped:
        if not isinstance(error, NotFinite):
            return TrainingStopped(str(error))
        self.log.finite = False
        return TrainingStopped(f"{error} (a lower learning rate may help, or grad_clip_norm)")

    def _write_down(self, norm: float | None, params: AdamParams) -> None:
        total, counted = self._sums
        self._sums = [0.0, 0.0]
        self.log.losses.append(total / counted if counted else total)
        self.log.gradient_norms.append(None if norm is None or math.isnan(norm) else float(norm))
        self.log.tokens.append(self._tokens)
        now = time.perf_counter()
        self.log.seconds.append(now - (self._began or now))
        self._tokens, self._began = 0, None
        settings = asdict(params)
        self.log.learning_rates.append(float(settings.pop("learning_rate")))
        for name, value in settings.items():
            self.log.note(name, value)


def _counted(data: Sequence[Datum]) -> float:
    """How many tokens count; rows, where a loss weighs them by advantages."""
    return sum(float(one.inputs["weights"].sum()) if "weights" in one.inputs else 1.0 for one in data)
