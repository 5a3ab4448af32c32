"""Trains adapters of the embedded model in this process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_crucible.adapters.adapter_kind import option_path
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.local import check_local
from pytest_crucible.backends.local import open_engine
from pytest_crucible.features.training.encoding import EmbeddedEncoder
from pytest_crucible.features.training.log import SavedTraining, SavedWeights, SaveWeights
from pytest_crucible.features.training.losses import Pass
from pytest_crucible.features.training.recipe import Watch
from pytest_crucible.features.training.trainer import RecipeTrainer
from pytest_crucible.local_model.checkpoints import SAMPLER_FILE, Adapter, LoraSpec, load_sampler, save_sampler
from pytest_crucible.local_model.engine import Engine, Sampler, Trainer
from pytest_crucible.local_model.losses import AdamParams, NotFinite
from pytest_crucible.local_model.training import GradientResult
from pytest_crucible.records import Adapter as ConfiguredAdapter
from pytest_crucible.records import Lineage
from pytest_crucible.records.files import hash_file


@dataclass(frozen=True)
class EmbeddedBase:
    """The embedded model as a base, with its name."""

    engine: Engine
    name: str

    @property
    def simulated(self) -> bool:
        return False

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

    @property
    def is_recovered(self) -> bool:
        return False

    def recover(self, wait_s: float) -> None:
        """A training in this process ends with it: there is nothing to wait for."""

    def holds_state(self, path: str) -> bool:
        # States in a file were read before.
        return not path

    def holds(self, lineage: Lineage) -> bool:
        # Weights in a file were found by their hash; a checkpoint is on a service.
        return not lineage.checkpoint


def open_local_base(adapter: ConfiguredAdapter, context: AdapterContext) -> EmbeddedBase:
    """Open the base model that a recipe trains an adapter of. Raises SpecError."""
    check_local(adapter)
    base = option_path(adapter, "base", context.root)
    return EmbeddedBase(open_engine(base), "packaged" if base is None else str(base))


class EmbeddedTrainer(RecipeTrainer):
    """Trains one adapter; `engine` and `adapter` are public for recipes that need them."""

    def __init__(self, engine: Engine, spec: LoraSpec, *, folder: Path, watch: Watch = lambda log: None) -> None:
        super().__init__(
            spec, EmbeddedEncoder(engine.tokenizer), folder=folder, context=engine.shape.context, watch=watch
        )
        self.engine = engine
        self._trainer = Trainer(engine, Adapter.initial(spec, engine.shape))
        self._good = _copy(self.adapter)

    @property
    def adapter(self) -> Adapter:
        """The current adapter; after a step that failed, the last one with a finite loss."""
        return self._trainer.adapter

    def _sampler(self) -> Sampler:
        return self._trainer.sampler()

    def save_sampler(self, path: Path) -> None:
        """Write the current adapter, for sampling. Raises FileExistsError rather than change a file."""
        self._trainer.save_sampler(path)

    def save(self, folder: Path) -> SavedWeights:
        return self._save(self.adapter, folder)

    def _keep(self, step: int) -> SaveWeights:
        adapter = _copy(self.adapter)
        return lambda folder: self._save(adapter, folder)

    def _save_state(self, folder: Path) -> str:
        self._trainer.save_state(folder)
        return ""

    def _load_state(self, saved: SavedTraining) -> None:
        self._trainer.load_state(saved.place)
        self._remember()

    def _restore_kept(self, saved: SavedTraining, step: int) -> SaveWeights:
        # Read now: the next state takes the place of this one.
        adapter = load_sampler(saved.place / f"kept-{step}", self.engine.shape, self.engine.base_sha256)
        return lambda folder: self._save(adapter, folder)

    def _save(self, adapter: Adapter, folder: Path) -> SavedWeights:
        save_sampler(folder / SAMPLER_FILE, adapter, self.engine.base_sha256)
        return SavedWeights(adapter_sha256=hash_file(folder / SAMPLER_FILE))

    def _pass(self, batch: Pass) -> GradientResult:
        try:
            return self._trainer.forward_backward(
                batch.data, batch.loss, batch.config, forward_only=batch.forward_only, outputs=batch.outputs
            )
        except ValueError:
            # The weights that gave this loss must not be saved: go back to those of the last finite loss.
            self._replace(self._good)
            raise

    def _move(self, params: AdamParams) -> dict[str, float]:
        # Overflow is reported below, with a sentence, instead of by numpy's warning.
        with np.errstate(all="ignore"):
            metrics = self._trainer.optim_step(params)
        if not all(np.isfinite(values).all() for values in self.adapter.factors.values()):
            self._replace(self._good)
            raise NotFinite("the step made weights that are not finite")
        return metrics

    def _remember(self) -> None:
        self._good = _copy(self.adapter)

    def _load(self, checkpoint: str | Path) -> str:
        path = self._folder / Path(checkpoint).expanduser()
        self._replace(load_sampler(path, self.engine.shape, self.engine.base_sha256))
        self._remember()
        # The rank is the checkpoint's, not that of the configuration.
        self.spec = self.adapter.spec
        weights = path / SAMPLER_FILE if path.is_dir() else path
        self.files.add(weights)
        self.parent_place = path
        return hash_file(weights)

    def _replace(self, adapter: Adapter) -> None:
        """Use other weights; the optimiser and its gradients stay as they are."""
        self._trainer.use(adapter)


def _copy(adapter: Adapter) -> Adapter:
    return Adapter(adapter.spec, {name: values.copy() for name, values in adapter.factors.items()})
