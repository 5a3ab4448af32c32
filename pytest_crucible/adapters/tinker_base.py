"""Base models of Tinker services, which recipes train adapters of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.options import check_options
from pytest_crucible.adapters.origin import Origin, shorten_path
from pytest_crucible.backends.queue_states import QueueStates, watch_queue
from pytest_crucible.backends.tinker.address import OPTIONS, identify_model, names_service
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.tokens import Tokenizer
from pytest_crucible.records import Adapter, Lineage
from pytest_crucible.records.errors import SpecError
from pytest_crucible.training import trained_adapters
from pytest_crucible.training.encoding import EmbeddedEncoder, Encoder, TemplateEncoder
from pytest_crucible.training.recipe import Base, Watch, find_function, hash_function
from pytest_crucible.training.tinker_trainer import TinkerTrainer

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.service import Service
    from pytest_crucible.backends.tinker.services import TinkerServices
    from pytest_crucible.training.trainer import RecipeTrainer

RECIPE = ("recipe", "base_model", "lora", "seed", "hyperparameters", "at", "save_every", "on_lost_training")
"""Options of an adapter with a recipe, besides those that name its service."""
NOT_FOUND = 404


def open_base(adapter: Adapter, context: AdapterContext) -> Base:
    """Return the base model that a recipe trains. Raises SpecError for invalid options; the service is opened later."""
    check_recipe(adapter)
    return ServiceBase(adapter, context.tinker(), context.shared.queues)


def find_origin(adapter: Adapter, context: AdapterContext) -> Origin:
    """Return the session's service, and of an adapter with a recipe the recipe's function and data. Raises SpecError."""
    service = (context.settings.tinker, context.settings.tinker_base)
    if "recipe" not in adapter.options:
        return Origin(service)
    # The recipe's key would need the base, and so the service: its function alone recognises it.
    function = hash_function(find_function(adapter.name, adapter.options["recipe"]))
    lineages = (trained.lineage for trained in trained_adapters(context.adapters_folder))
    data: Mapping[str, str] = next(
        (lineage.data for lineage in lineages if lineage.checkpoint and lineage.recipe_sha256 == function), {}
    )
    return Origin(
        (function, *service), {shorten_path(Path(name), context.root): sha256 for name, sha256 in data.items()}
    )


def check_recipe(adapter: Adapter) -> None:
    """Raise SpecError for unknown or contradictory options of an adapter with a recipe."""
    if "model_path" in adapter.options:
        raise SpecError(f"adapter {adapter.name!r} has a recipe and a model_path: remove one of them")
    check_options(adapter, (*RECIPE, *OPTIONS))


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
