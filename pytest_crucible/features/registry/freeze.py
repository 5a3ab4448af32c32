"""Freezes an adapter for the registry: its table with everything resolved, its identity, weights and lineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_crucible.adapters.config import find_adapter, read_adapters
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.kinds import kind_of
from pytest_crucible.adapters.opener import Opener
from pytest_crucible.adapters.prompt_text import freeze_prompt
from pytest_crucible.adapters.stored_arms import is_stored
from pytest_crucible.adapters.untrained import explain_missing, untrained_recipes
from pytest_crucible.features.registry.version_names import is_version
from pytest_crucible.adapters.weights import Weights
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError


@dataclass(frozen=True)
class FrozenAdapter:
    """The present state of an adapter."""

    adapter: Adapter
    """Its table, with the checkpoint instead of the recipe, and the prompt's text instead of its file."""
    identity: str
    weights: Weights


def freeze_adapter(name: str, context: AdapterContext) -> FrozenAdapter:
    """Open an adapter and return its state. Raises SpecError, also for an adapter that is not trained yet."""
    configured = read_adapters(context.root)
    if is_stored(name) or (is_version(name) and name not in configured):
        raise SpecError(f"{name!r} is not an adapter of the configuration: register the name of one, or a URI")
    opened = Opener(context).open(name, "candidate")
    if untrained_recipes([opened]):
        raise SpecError("\n".join(explain_missing([opened])))
    if opened.trainings:
        raise SpecError(
            f"adapter {name!r} has seeds, so it is several models: register one of its trainings, such as "
            f"local:{opened.trainings[0].arm.name}"
        )
    located = _locate(find_adapter(name, configured), context, configured)
    # The version keeps the prompt's text: its file may change.
    located = replace(located, variables=freeze_prompt(located, context.root))
    return FrozenAdapter(located, opened.arm.identity, kind_of(located).find_weights(located, context))


def _locate(adapter: Adapter, context: AdapterContext, configured: Mapping[str, Adapter]) -> Adapter:
    """Return the adapter with its paths resolved, and with a checkpoint in the place of a recipe."""
    typed_in = None if adapter.name in configured else context.invocation_folder
    located = kind_of(adapter).locate_files(adapter, context, configured, typed_in)
    if not kind_of(located).has_recipe(located):
        return located
    # The import loads numpy and the local model, which adapters without a recipe do not need.
    from pytest_crucible.adapters import recipes

    trained = recipes.find_trained_adapter(recipes.read_recipe(located, context), context)
    return located if trained is None else recipes.with_checkpoint(located, trained)
