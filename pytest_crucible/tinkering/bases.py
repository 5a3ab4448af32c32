"""A base model of a Tinker service, for recipes to train adapters of."""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible.embedded.lora import LoraSpec
from pytest_crucible.embedded.tokens import Tokenizer
from pytest_crucible.errors import SpecError
from pytest_crucible.records import Adapter, Lineage
from pytest_crucible.tinkering.adapters import identity_of
from pytest_crucible.tinkering.places import OPTIONS
from pytest_crucible.tinkering.session import tinkering
from pytest_crucible.training.base import Watch
from pytest_crucible.training.encoding import EmbeddedEncoder, Encoder, TemplateEncoder

if TYPE_CHECKING:
    from pytest_crucible.tinkering.service import Service
    from pytest_crucible.training.trainer import RecipeTrainer

RECIPE = ("recipe", "base_model", "lora", "seed")
"""What an adapter with a recipe may say, besides where its service is."""
NOT_FOUND = 404


def check_recipe(adapter: Adapter) -> None:
    """Raise SpecError for settings of an adapter with a recipe that are unknown, missing, or contradict each other."""
    if "model_path" in adapter.options:
        raise SpecError(f"adapter {adapter.name!r} has a recipe and a model_path: it is made by one of them")
    if unknown := sorted(set(adapter.options) - {*RECIPE, *OPTIONS}):
        raise SpecError(
            f"adapter {adapter.name!r} has {unknown[0]!r}, which backend 'tinker' does not know: "
            f"with a recipe it takes {', '.join((*RECIPE[1:], *OPTIONS))}, and parameters"
        )


class ServiceBase:
    """The service is opened when something has to be asked of it."""

    sha256 = ""

    def __init__(self, config: pytest.Config, adapter: Adapter) -> None:
        """Raises SpecError for settings that mean nothing."""
        check_recipe(adapter)
        self._config, self._adapter = config, adapter
        self._is_own = not any(name in adapter.options for name in OPTIONS)
        self._is_local = self._is_own and tinkering(config).is_local

    @property
    def name(self) -> str:
        return self.identity

    @property
    def words(self) -> str:
        return f"base {self.identity} on {self._service.name}"

    @cached_property
    def identity(self) -> str:
        return identity_of(self._service.place, self._model, is_own=self._is_own, is_local=self._is_local)

    def trainer(self, adapter: str, spec: LoraSpec, *, folder: Path, watch: Watch) -> RecipeTrainer:
        from pytest_crucible.training.tinker import TinkerTrainer

        service = self._service
        client = service.training_client(base_model=self._model, **asdict(spec))
        return TinkerTrainer(
            client,
            service.sdk,
            spec,
            self._encoder(client),
            name=re.sub(r"[^\w.-]+", "-", adapter),
            within=service.within,
            resumed=service.resumed_client,
            folder=folder,
            context=service.context_of(self._model),
            watch=watch,
        )

    def holds(self, lineage: Lineage) -> bool:
        """Whether the service still has the checkpoint; it may have expired, or been deleted."""
        if not lineage.checkpoint:
            return False
        rest = self._service.rest

        def look() -> bool:
            try:
                rest.get_weights_info_by_tinker_path(lineage.checkpoint).result()
            except Exception as error:
                if getattr(error, "status_code", None) == NOT_FOUND:
                    return False
                raise
            return True

        return bool(self._service.within("tell whether a checkpoint is there", look))

    @cached_property
    def _service(self) -> Service:
        return tinkering(self._config).of(self._adapter.name, self._adapter.options)

    @cached_property
    def _model(self) -> str:
        named = self._adapter.options.get("base_model")
        if named is not None and not isinstance(named, str):
            raise SpecError(f"adapter {self._adapter.name!r} has base_model {named!r}: write the name of a model")
        if self._is_own:
            return tinkering(self._config).model(named)
        if named is None:
            raise SpecError(f'adapter {self._adapter.name!r} has a recipe but no base_model: add base_model = "..."')
        return named

    def _encoder(self, client: Any) -> Encoder:
        if self._is_local:  # without transformers, whose import alone takes seconds
            return EmbeddedEncoder(Tokenizer.load(Path(self._model) / "tokenizer.json"))
        return TemplateEncoder(self._service.within("load the tokenizer", client.get_tokenizer))
