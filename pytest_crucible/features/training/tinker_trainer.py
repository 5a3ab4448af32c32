"""Trains adapters of a Tinker service's base models, through the `TrainingClient` of the official SDK, with the same recipes.

A step waits for its loss before it moves the adapter, which costs a round trip: a service cannot undo a step.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.adapter_kind import check_options
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_rows import option_names
from pytest_crucible.backends.context import QueueStates
from pytest_crucible.backends.tinker.health import watch_queue
from pytest_crucible.backends.tinker.service import OPTIONS, identify_model, names_service
from pytest_crucible.features.training.encoding import EmbeddedEncoder, Encoder, TemplateEncoder
from pytest_crucible.features.training.log import (
    SavedTraining,
    SavedWeights,
    SaveWeights,
    TrainingLost,
    TrainingStopped,
    Watch,
)
from pytest_crucible.features.training.losses import DPO, LOSS, Pass, Preference, make_loss, read_beta, sides
from pytest_crucible.features.training.trainer import RecipeTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.losses import AdamParams, NotFinite
from pytest_crucible.local_model.tokens import Tokenizer
from pytest_crucible.local_model.training import GradientResult
from pytest_crucible.records import Adapter, Lineage
from pytest_crucible.records.errors import ServiceLost, SpecError

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.service import Service
    from pytest_crucible.backends.tinker.services import TinkerServices

NOT_FOUND = 404
PATH = "tinker://"
Resumed = Callable[..., Any]
Within = Callable[[str, Callable[[], Any]], Any]


class TinkerTrainer(RecipeTrainer):
    """Trains one adapter; `client` is the SDK's, for recipes that need it. Calls made on it directly are not logged."""

    def __init__(
        self,
        client: Any,
        sdk: Any,
        spec: LoraSpec,
        encoder: Encoder,
        *,
        name: str,
        within: Within,
        resumed: Resumed,
        folder: Path,
        context: int | None = None,
        watch: Watch = lambda log: None,
    ) -> None:
        """`within(doing, call)` returns the result of a call of the SDK, and raises SpecError when it fails or is late.

        `resumed(path)` returns a client that resumes from a state, with a new optimiser or the state's own.
        """
        super().__init__(spec, encoder, folder=folder, context=context, watch=watch)
        self.client = client
        self._sdk, self._name, self._within, self._resumed = sdk, name, within, resumed
        self._good = ""
        self._has_failed = False

    def _sampler(self) -> Any:
        """Return the SDK's SamplingClient of the current adapter; later steps do not change it."""
        return self._within("save weights to sample from", self.client.save_weights_and_get_sampling_client)

    def save(self, folder: Path) -> SavedWeights:
        # A service cannot undo a step: after a failure only the last saved state is good.
        if self._has_failed:
            return SavedWeights(state=self._good)
        return SavedWeights(checkpoint=self._save_weights(self._name), state=self._save_as_state(self._name))

    def _keep(self, step: int) -> SaveWeights:
        if self._has_failed:
            raise TrainingStopped("training has failed, and a service cannot undo a step: keep the steps before it")
        # Saved now: a service cannot go back to a step.
        saved = SavedWeights(checkpoint=self._save_weights(f"{self._name}-step-{step}"))
        return lambda folder: saved

    def _pass(self, batch: Pass) -> GradientResult:
        run = self.client.forward if batch.forward_only else self.client.forward_backward
        rows, settings = [self._sdk_datum(datum) for datum in batch.data], dict(batch.config) or None
        output = self._call("run forward and backward", lambda: run(rows, batch.loss, settings))
        return self._read_output(output, batch.loss)

    def _read_output(self, output: Any, loss: str) -> GradientResult:
        total = float(output.metrics[LOSS])
        if not math.isfinite(total):
            self._has_failed = True
            raise NotFinite(f"the {loss} loss is {total}")
        of_rows = [{name: values.to_numpy() for name, values in row.items()} for row in output.loss_fn_outputs]
        return GradientResult(total, of_rows, dict(output.metrics), {})

    def _pass_pairs(
        self, pairs: Sequence[Preference], config: Mapping[str, float], *, forward_only: bool
    ) -> GradientResult:
        """Return the loss of preferences through the SDK's `forward_backward_custom`, which needs PyTorch.

        Without it, the two passes that the SDK would make are made here.
        """
        if forward_only or importlib.util.find_spec("torch") is None:
            return super()._pass_pairs(pairs, config, forward_only=forward_only)
        loss = make_loss(pairs, read_beta(config))
        rows = [self._sdk_datum(datum) for datum in sides(pairs)]
        output = self._call("run forward and backward", lambda: self.client.forward_backward_custom(rows, loss))
        return self._read_output(output, DPO)

    def _move(self, params: AdamParams) -> dict[str, float]:
        # Versions of the SDK differ in their fields.
        fields = getattr(self._sdk.AdamParams, "model_fields", None) or self._sdk.AdamParams.__annotations__
        settings = {name: value for name, value in asdict(params).items() if name in fields}
        output = self._call("make a step", lambda: self.client.optim_step(self._sdk.AdamParams(**settings)))
        return dict(output.metrics or {})

    def _remember(self) -> None:
        """A service cannot go back: its states are saved every few steps instead."""

    def _save_state(self, folder: Path) -> str:
        # Two names in turn: while one is written, the record on disk names the other.
        turn = len(self.log.losses) // max(1, self._save_every) % 2
        self._good = self._save_as_state(f"{self._name}-unfinished-{turn}")
        return self._good

    def _load_state(self, saved: SavedTraining) -> None:
        self.client = self._resumed(saved.state, optimizer=True)
        self._good = saved.state

    def _restore_kept(self, saved: SavedTraining, step: int) -> SaveWeights:
        path = saved.kept_steps[step]
        return lambda folder: path

    def _load(self, checkpoint: str | Path) -> str:
        path = str(checkpoint)
        if not path.startswith(PATH):
            self.parent_place = self._folder / Path(checkpoint).expanduser()
            path = _read_state(self.parent_place)
        self.client = self._resumed(path)
        info = self._within("tell what it trains", self.client.get_info)
        # The place of the rank differs between versions of the SDK.
        rank = getattr(info.model_data, "lora_rank", None) or getattr(info, "lora_rank", None) or self.spec.rank
        self.spec = replace(self.spec, rank=rank)
        return path

    def _call(self, doing: str, call: Callable[[], Any]) -> Any:
        """Call the SDK; an error ends the training, which may have a state to resume from."""
        try:
            return self._within(doing, call)
        except ServiceLost as error:
            self._has_failed = True
            raise TrainingLost(str(error)) from None
        except SpecError as error:
            self._has_failed = True
            raise ValueError(str(error)) from None

    def _save_weights(self, name: str) -> str:
        saved = self._within("save weights to sample from", lambda: self.client.save_weights_for_sampler(name))
        return str(saved.path)

    def _save_as_state(self, name: str) -> str:
        saved = self._within("save its state", lambda: self.client.save_state(name, overwrite=True))
        return str(saved.path)

    def _sdk_datum(self, datum: Datum) -> Any:
        inputs = {name: values.tolist() for name, values in datum.inputs.items()}
        return self._sdk.Datum(
            model_input=self._sdk.ModelInput.from_ints([int(token) for token in datum.tokens]), loss_fn_inputs=inputs
        )


def _read_state(place: Path) -> str:
    """Return the state of an adapter that a recipe has trained on the service, from the lineage in its directory."""
    try:
        state = json.loads((place / "lineage.json").read_text(encoding="utf-8"))["state"]
    except (OSError, ValueError, KeyError, TypeError):
        state = ""
    if not state:
        raise ValueError(
            f"start_from({str(place)!r}) names no training on a Tinker service: write tinker://RUN/weights/NAME, or the "
            "directory of an adapter that was trained there"
        )
    return str(state)


def open_service_base(adapter: Adapter, context: AdapterContext) -> ServiceBase:
    """Return the base model that a recipe trains. Raises SpecError for invalid options; the service is opened later."""
    if "model_path" in adapter.options:
        raise SpecError(f"adapter {adapter.name!r} has a recipe and a model_path: remove one of them")
    check_options(adapter, (*option_names("tinker", ("base_model",)), *OPTIONS))
    return ServiceBase(adapter, context.tinker(), context.shared.queues)


class ServiceBase:
    """A base model of one service. The service is opened by the first property that needs it."""

    sha256 = ""

    def __init__(self, adapter: Adapter, tinker: TinkerServices, queues: QueueStates) -> None:
        self._tinker, self._adapter, self._queues = tinker, adapter, queues
        self.is_recovered = False
        self._is_own = not names_service(adapter.options)
        self._is_local = self._is_own and tinker.is_local

    @property
    def name(self) -> str:
        return self.identity

    @property
    def words(self) -> str:
        return f"base {self.identity} on {self._service.name}"

    @property
    def simulated(self) -> bool:
        return bool(self._service.find_listed(self._model).stand_in)

    @cached_property
    def identity(self) -> str:
        return identify_model(self._service.address, self._model, is_own=self._is_own, is_local=self._is_local)

    def trainer(self, adapter: str, spec: LoraSpec, *, folder: Path, watch: Watch) -> RecipeTrainer:
        service = self._service
        client = service.training_client(base_model=self._model, **asdict(spec))
        watch_queue(client, service.name, self._queues.open())
        return TinkerTrainer(
            client,
            service.sdk,
            spec,
            self._encoder(client),
            # The name becomes part of a checkpoint's path on the service.
            name=re.sub(r"[^\w.-]+", "-", adapter),
            within=service.within,
            resumed=service.resumed_client,
            folder=folder,
            context=service.find_listed(self._model).context,
            watch=watch,
        )

    def recover(self, wait_s: float) -> None:
        """Open the service again after it was lost. Raises SpecError if it does not come back within some seconds."""
        self._service.recover(wait_s)
        self.is_recovered = True

    def holds(self, lineage: Lineage) -> bool:
        """Return whether the service still has the checkpoint: it may have expired, or been deleted."""
        return bool(lineage.checkpoint) and self.holds_state(lineage.checkpoint)

    def holds_state(self, path: str) -> bool:
        rest = self._service.rest

        def look() -> bool:
            try:
                rest.get_weights_info_by_tinker_path(path).result()
            except Exception as error:
                if getattr(error, "status_code", None) == NOT_FOUND:
                    return False
                raise
            return True

        return bool(self._service.within("tell whether a checkpoint is there", look))

    @cached_property
    def _service(self) -> Service:
        return self._tinker.service_of(self._adapter.name, self._adapter.options)

    @cached_property
    def _model(self) -> str:
        named = self._adapter.options.get("base_model")
        if named is not None and not isinstance(named, str):
            raise SpecError(f"adapter {self._adapter.name!r} has base_model {named!r}: write the name of a model")
        if self._is_own:
            return self._tinker.full_name(named)
        if named is None:
            raise SpecError(f'adapter {self._adapter.name!r} has a recipe but no base_model: add base_model = "..."')
        return named

    def _encoder(self, client: Any) -> Encoder:
        place = self._model if self._is_local else self._service.find_listed(self._model).tokenizer
        if place:
            # The import of transformers, which the SDK's tokenizer needs, would take seconds.
            return EmbeddedEncoder(Tokenizer.load(Path(place) / "tokenizer.json"))
        return TemplateEncoder(self._service.within("load the tokenizer", client.get_tokenizer))
