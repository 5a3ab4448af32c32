"""Training adapters of the embedded model, in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_crucible.embedded.adam import AdamParams, NotFinite
from pytest_crucible.embedded.batches import Datum
from pytest_crucible.embedded.checkpoints import SAMPLER_FILE, load_sampler
from pytest_crucible.embedded.engine import Engine, Sampler, Trainer
from pytest_crucible.embedded.lora import Adapter, LoraSpec
from pytest_crucible.embedded.training import Trained
from pytest_crucible.records import Lineage
from pytest_crucible.training.base import Watch
from pytest_crucible.training.encoding import EmbeddedEncoder
from pytest_crucible.training.reading import sha256_of
from pytest_crucible.training.trainer import Kept, RecipeTrainer


@dataclass(frozen=True)
class EmbeddedBase:
    """An engine, and what it is called."""

    engine: Engine
    name: str

    @property
    def words(self) -> str:
        return f"base of {self.engine.shape.parameters:,} parameters"

    @property
    def identity(self) -> str:
        return self.engine.base_sha256

    @property
    def sha256(self) -> str:
        return self.engine.base_sha256

    def trainer(self, adapter: str, spec: LoraSpec, *, folder: Path, watch: Watch = lambda log: None) -> RecipeTrainer:
        return EmbeddedTrainer(self.engine, spec, folder=folder, watch=watch)

    def holds(self, lineage: Lineage) -> bool:
        return not lineage.checkpoint  # by its hash the file was found


class EmbeddedTrainer(RecipeTrainer):
    """`engine` and `adapter` are there for recipes that look closer."""

    def __init__(self, engine: Engine, spec: LoraSpec, *, folder: Path, watch: Watch = lambda log: None) -> None:
        super().__init__(
            spec, EmbeddedEncoder(engine.tokenizer), folder=folder, context=engine.shape.context, watch=watch
        )
        self.engine = engine
        self._trainer = Trainer(engine, Adapter.initial(spec, engine.shape))
        self._good = _copy(self.adapter)

    @property
    def adapter(self) -> Adapter:
        """As it is now; after a step that failed, the last whose loss was finite."""
        return self._trainer.adapter

    def sampler(self) -> Sampler:
        return self._trainer.sampler()

    def save_sampler(self, path: Path) -> None:
        """Write the adapter as it is now, to sample from. A file that exists is never changed: FileExistsError."""
        self._trainer.save_sampler(path)

    def save(self, folder: Path) -> Kept:
        self.save_sampler(folder / SAMPLER_FILE)
        return Kept(adapter_sha256=sha256_of(folder / SAMPLER_FILE))

    def _pass(self, data: Sequence[Datum], loss: str, config: Mapping[str, float], *, forward_only: bool) -> Trained:
        try:
            return self._trainer.forward_backward(data, loss, config, forward_only=forward_only)
        except ValueError:
            self._replace(self._good)
            raise

    def _move(self, params: AdamParams) -> dict[str, float]:
        with np.errstate(all="ignore"):  # what is not finite is told below
            metrics = self._trainer.optim_step(params)
        if not all(np.isfinite(one).all() for one in self.adapter.factors.values()):
            self._replace(self._good)
            raise NotFinite("the step made weights that are not finite")
        return metrics

    def _remember(self) -> None:
        self._good = _copy(self.adapter)

    def _load(self, checkpoint: str | Path) -> str:
        place = self._folder / Path(checkpoint).expanduser()
        self._replace(load_sampler(place, self.engine.shape, self.engine.base_sha256))
        self._remember()
        self.spec = self.adapter.spec
        weights = place / SAMPLER_FILE if place.is_dir() else place
        self.files.add(weights)
        return sha256_of(weights)

    def _replace(self, adapter: Adapter) -> None:
        """The optimiser and its gradients go on as they are; after a failure nothing follows."""
        self._trainer.use(adapter)


def _copy(adapter: Adapter) -> Adapter:
    return Adapter(adapter.spec, {name: one.copy() for name, one in adapter.factors.items()})
