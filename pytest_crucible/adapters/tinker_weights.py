"""Weights that a Tinker service holds: their lineage, and when the service deletes them."""

from __future__ import annotations

from datetime import datetime

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.weights import Weights
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError


def find_weights(adapter: Adapter, context: AdapterContext) -> Weights:
    """Return the lineage of a checkpoint that a recipe of this project has made. The service has the weights."""
    path = adapter.options.get("model_path")
    if path is None:
        return Weights()
    # The import loads numpy and the local model, which adapters without a checkpoint do not need.
    from pytest_crucible.backends.lineages import find_lineage

    return Weights(lineage=find_lineage(context.adapters_folder, path))


def find_expiry(adapter: Adapter, context: AdapterContext) -> datetime | None:
    """Return when the service deletes the adapter's checkpoint; None for a base model, or where it keeps it.

    Raises SpecError if the service has no such checkpoint, or cannot be reached.
    """
    path = adapter.options.get("model_path")
    if path is None:
        return None
    service = context.tinker().service_of(adapter.name, adapter.options)
    run, name = path.removeprefix("tinker://").split("/", 1)
    listed = service.within("list checkpoints", lambda: service.rest.list_checkpoints(run))
    matches = [checkpoint for checkpoint in listed.checkpoints if checkpoint.checkpoint_id == name]
    if not matches:
        raise SpecError(f"{service.name} has no {path} any more: register a checkpoint that it has")
    expires: datetime | None = matches[0].expires_at
    return expires
