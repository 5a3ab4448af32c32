"""The trainer that a recipe gets as its argument, which logs each step; that of the embedded model, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.adapter_kind import option_path
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.local import check_local
from pytest_crucible.backends.local import open_engine
from pytest_crucible.features.training.encoding import LAST, EmbeddedEncoder, Encoder, encode_rows
from pytest_crucible.features.training.log import (
    OpenStep,
    SavedTraining,
    SavedWeights,
    SaveWeights,
    TrainingLog,
    TrainingStopped,
    Watch,
)
from pytest_crucible.features.training.losses import (
    Pass,
    Preference,
    add_reference,
    as_cross_entropy,
    check_regularizers,
    count_weights,
    datums_of,
    encode_preferences,
    pass_preferences,
    pass_regularized,
    preferences_of,
    reply_logprobs,
    row_advantages,
    sides,
    with_reference,
)
from pytest_crucible.features.training.regularizers import REFERENCE, Regularizer, drop_inputs
from pytest_crucible.features.training.resumable import GRADIENT_NORM, Resumable, pass_digest
from pytest_crucible.local_model.checkpoints import SAMPLER_FILE, Adapter, LoraSpec, load_sampler, save_sampler
from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.engine import Engine, Sampler, Trainer
from pytest_crucible.local_model.losses import AdamParams, NotFinite
from pytest_crucible.local_model.training import GradientResult
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter as ConfiguredAdapter
from pytest_crucible.records import Lineage
from pytest_crucible.records.files import hash_file


class RecipeTrainer(Resumable):
    """An adapter in training, with `tokenizer`, `seed`, `datums(rows)` and `step(batch)`.

    A step that fails raises TrainingStopped; the last adapter with a finite loss is kept then.
    """

    def __init__(
        self,
        spec: LoraSpec,
        encoder: Encoder,
        *,
        folder: Path,
        context: int | None,
        watch: Callable[[TrainingLog], None] = lambda log: None,
    ) -> None:
        """Paths of data are relative to `folder`; `watch` is called after each step."""
        super().__init__(spec.seed)
        self.spec = spec
        self.parent: str | None = None
        """SHA-256 or path of the checkpoint that training started from."""
        self.parent_place: Path | None = None
        """The path of this checkpoint, if it is on this machine."""
        self._to_keep: set[int] = set()
        self.find_version: Callable[[str], str] = str
        """Returns the path of a registered version's weights; other texts unchanged. Raises SpecError."""
        self._encoder, self._context = encoder, context
        self._has_reference = False
        self._folder = folder
        self._watch = watch

    @property
    def _has_begun(self) -> bool:
        return bool(self.log.losses or self._open_step.passes)

    @property
    def tokenizer(self) -> Any:
        return self._encoder.tokenizer

    def datums(
        self,
        rows: str | Path | Iterable[Mapping[str, Any]],
        *,
        train_on: str = LAST,
        weights: Iterable[float] | None = None,
    ) -> list[Datum]:
        """Encode rows to train on: a JSONL file next to the recipe, or mappings. Only completions count in the loss.

        A row has `prompt` and `completion`, or `messages`, the last of which is the completion; with
        `train_on="all_assistant"` every answer of the assistant is one. The loss of a row is multiplied by its `weight`, by its
        number in `weights`, and that of an answer by its message's `weight`, if there are some. Raises DatasetError, and
        ValueError for another `train_on`.
        """
        return encode_rows(self._locate(rows), self._encoder, self._context, train_on=train_on, weights=weights)

    def preferences(self, rows: str | Path | Iterable[Mapping[str, Any]]) -> list[Preference]:
        """Encode preferences to train on with `loss="dpo"`: a JSONL file next to the recipe, or mappings.

        A row has `prompt`, `chosen` and `rejected`, or another form of `crucible export --what dpo`. The model as it is now is the
        reference. Raises DatasetError, and ValueError after the first step.
        """
        if self._has_begun:
            raise ValueError("training has begun, and the starting model is the reference: call preferences before")
        pairs = encode_preferences(self._locate(rows), self._encoder, self._context)
        data = sides(pairs)
        return with_reference(pairs, reply_logprobs(data, self._run_reference(data)))

    def with_reference(self, data: Sequence[Datum]) -> list[Datum]:
        """Return the rows with the log-probabilities of their targets under the model as it is now, for `KLDivergence`.

        Raises ValueError after the first step.
        """
        if self._has_begun:
            raise ValueError("training has begun, and the starting model is the reference: call with_reference before")
        return add_reference(data, self._run_reference(as_cross_entropy(data)))

    def _run_reference(self, data: Sequence[Datum]) -> list[dict[str, Any]]:
        """Return the outputs of the starting model, which is a reference from now on."""
        self._has_reference = True
        try:
            return self._pass(Pass(data, forward_only=True)).outputs
        except ValueError as error:
            raise self._training_error(error) from None

    def _locate(self, rows: str | Path | Iterable[Mapping[str, Any]]) -> Path | Iterable[Mapping[str, Any]]:
        """Return the rows, or the path of their file, which becomes one of the training's files."""
        if not isinstance(rows, str | Path):
            return rows
        path = self._folder / Path(rows).expanduser()
        self.files.add(path)
        return path

    def start_from(self, checkpoint: str | Path) -> None:
        """Start from an adapter that was trained before, which becomes the parent.

        A path, or a registered version by its number, such as `claims@1`. Raises ValueError after the first step, and SpecError
        for a version that is not registered.
        """
        if self._has_begun:
            raise ValueError("training has begun: call start_from before the first step")
        if self._has_reference:
            raise ValueError("the reference is the model before start_from: call start_from before preferences")
        is_path = isinstance(checkpoint, Path) or (self._folder / checkpoint).exists()
        self.parent = self._load(checkpoint if is_path else self.find_version(str(checkpoint)))

    def checkpoint(self, step: int) -> None:
        """Keep the weights of this step, counted from 1, for adapters with `at = step`. Called before it, or right after it.

        Raises ValueError for a step that is over, and unless it is a whole number above 0.
        """
        steps = len(self.log.losses)
        if isinstance(step, bool) or not isinstance(step, int) or step < 1:
            raise ValueError(f"checkpoint({step!r}) is not a step: write a whole number from 1")
        if step < steps and step not in self.kept:
            raise ValueError(f"checkpoint({step}) comes after step {steps}: call it before step {step + 1}")
        self._to_keep.add(step)
        self._keep_weights()

    def step(
        self,
        batch: Sequence[Datum] | Sequence[Preference],
        loss: str = "cross_entropy",
        *,
        learning_rate: float = 1e-3,
        config: Mapping[str, float] | None = None,
        regularizers: Sequence[Regularizer] = (),
        **adam: float,
    ) -> float:
        """Make one step of Adam along the gradients of a batch. Return the loss per counted token, or per preference.

        `config` configures the loss, and `regularizers` are terms that are added to it; further keywords are those of
        `AdamParams`. Raises TypeError for others.
        """
        if unknown := sorted(set(adam) - set(AdamParams.__dataclass_fields__)):
            arguments = ", ".join(("batch", "loss", *AdamParams.__dataclass_fields__, "config", "regularizers"))
            raise TypeError(f"step has no argument {unknown[0]!r}: it takes {arguments}")
        # Only the loss of a step is read.
        self._forward_backward(Pass(batch, loss, config or {}, outputs=False), regularizers)
        self.optim_step(AdamParams(learning_rate=learning_rate, **adam))
        return self.log.losses[-1]

    def forward_backward(
        self,
        data: Sequence[Datum] | Sequence[Preference],
        loss: str,
        config: Mapping[str, float] | None = None,
        *,
        regularizers: Sequence[Regularizer] = (),
        forward_only: bool = False,
    ) -> GradientResult:
        """Return loss and log-probabilities of a batch; its gradients are added to those since the last step.

        The gradients are those of the loss with its regularizers, whose weighted values are metrics; `loss` is without them.
        """
        return self._forward_backward(Pass(data, loss, config or {}, forward_only), regularizers)

    def _forward_backward(self, batch: Pass, regularizers: Sequence[Regularizer]) -> GradientResult:
        check_regularizers(regularizers)
        if not batch.forward_only:
            self._open_step.begin()
        digest = pass_digest(batch.data, batch.loss, batch.config, regularizers)
        if self._replay is not None:
            if batch.forward_only:
                raise self._replay.refuse("the recipe reads log-probabilities of a step that is not computed again")
            return self._replay.repeat_pass(digest, self.log)
        if self._checked is not None and not batch.forward_only:
            self._checked.check_next(digest)
            self._checked = None
        try:
            pairs = preferences_of(batch.data, batch.loss)
            rows = sides(pairs) if pairs else datums_of(batch.data)
            output = self._run_pass(pairs, replace(batch, data=rows), regularizers)
        except ValueError as error:
            raise self._training_error(error) from None
        if not batch.forward_only:
            self._remember()
            self._save_state_if_due(digest)
            tokens = sum(len(datum.tokens) for datum in rows)
            counted = len(pairs) or count_weights(rows)
            self._open_step.add(digest, float(output.loss), counted, tokens, row_advantages(rows))
            for name, value in {"loss": batch.loss, "rows": len(batch.data), **batch.config}.items():
                self.log.note(name, value)
            for regularizer in regularizers:
                self.log.note("regularizers", repr(regularizer))
        return output

    def _run_pass(
        self, pairs: Sequence[Preference], batch: Pass, regularizers: Sequence[Regularizer]
    ) -> GradientResult:
        """Return the loss of a batch of preferences, whose sides are its rows, or of rows alone. Raises as `_pass` does."""
        if regularizers:
            return pass_regularized(self._pass, batch, regularizers)
        if pairs:
            return self._pass_pairs(pairs, batch.config, forward_only=batch.forward_only)
        # Rows with a reference may also be trained on without a term that reads it.
        return self._pass(replace(batch, data=drop_inputs(batch.data, (REFERENCE,))))

    def _pass_pairs(
        self, pairs: Sequence[Preference], config: Mapping[str, float], *, forward_only: bool
    ) -> GradientResult:
        return pass_preferences(self._pass, pairs, config, forward_only=forward_only)

    def optim_step(self, params: AdamParams | None = None) -> dict[str, float]:
        """Move the adapter along the gradients, and clear them. Return the optimiser's metrics."""
        used = params or AdamParams()
        if self._replay is not None:
            return self._repeat_step(self._replay)
        try:
            metrics = self._move(used)
        except ValueError as error:
            raise self._training_error(error) from None
        self._open_step.write(self.log, metrics.get(GRADIENT_NORM), used)
        self._open_step = OpenStep()
        self._keep_weights()
        self._watch(self.log)
        return metrics

    def _keep_weights(self) -> None:
        step = len(self.log.losses)
        if step not in self._to_keep or step in self.kept:
            return
        if self._replay is None:
            self.kept[step] = self._keep(step)
        elif step in self._replay.saved.kept_steps:
            self.kept[step] = self._restore_kept(self._replay.saved, step)
        elif step < self._replay.saved.step:
            raise self._replay.refuse(f"the weights of step {step} are kept now, and were not before")

    def sampler(self) -> Any:
        if self._replay is not None:
            raise self._replay.refuse("the recipe samples from the weights of a step that is not computed again")
        return self._sampler()

    def _training_error(self, error: ValueError) -> TrainingStopped:
        if isinstance(error, TrainingStopped):
            return error
        if not isinstance(error, NotFinite):
            return TrainingStopped(str(error))
        self.log.finite = False
        return TrainingStopped(f"{error} (a lower learning rate may help, or grad_clip_norm)")


@dataclass(frozen=True)
class EmbeddedBase:
    """The embedded model as a base, a model without an adapter."""

    engine: Engine
    name: str
    """The name in the lineage of an adapter."""

    simulated = False
    """True where another model is trained under this one's name, on a local server."""
    is_recovered = False
    """True once the service was lost and opened again: its other clients have to be opened again, too."""

    @property
    def words(self) -> str:
        """The description on the terminal."""
        return f"base of {self.engine.shape.parameters:,} parameters"

    @property
    def sha256(self) -> str:
        return self.engine.base_sha256

    identity = sha256
    """A text that differs between bases and never changes for one base."""

    def trainer(self, adapter: str, spec: LoraSpec, *, folder: Path, watch: Watch = lambda log: None) -> RecipeTrainer:
        """Return a trainer of a new adapter. Paths of data are relative to `folder`; `watch` is called after each step."""
        return EmbeddedTrainer(self.engine, spec, folder=folder, watch=watch)

    def recover(self, wait_s: float) -> None:
        """A training in this process ends with it: there is nothing to wait for."""

    def holds_state(self, path: str) -> bool:
        """Return whether a saved state still exists. States in a file were read before; a service names them by a path."""
        return not path

    def holds(self, lineage: Lineage) -> bool:
        """Return whether an adapter's weights still exist: those in a file were found by their hash."""
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
            self._trainer.use(self._good)
            raise

    def _move(self, params: AdamParams) -> dict[str, float]:
        return self._trainer.optim_step(params)

    def _remember(self) -> None:
        self._good = _copy(self.adapter)

    def _load(self, checkpoint: str | Path) -> str:
        path = self._folder / Path(checkpoint).expanduser()
        self._trainer.use(load_sampler(path, self.engine.shape, self.engine.base_sha256))
        self._remember()
        # The rank is the checkpoint's, not that of the configuration.
        self.spec = self.adapter.spec
        weights = path / SAMPLER_FILE if path.is_dir() else path
        self.files.add(weights)
        self.parent_place = path
        return hash_file(weights)


def _copy(adapter: Adapter) -> Adapter:
    return Adapter(adapter.spec, {name: values.copy() for name, values in adapter.factors.items()})
