"""Registers an adapter as a version of a model, once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_crucible.adapters.freeze import FrozenAdapter
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.process_secrets import require_no_key
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.registry import LogEntry, StoredWeights, Version
from pytest_crucible.records.serialize import plain_or_repr
from pytest_crucible.registry.weights import keep_weights
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.version_states import PRODUCTION
from pytest_crucible.store.versions import add_version, find_number, load_registry, next_number, version_key


def check_model(name: str) -> None:
    """Raise SpecError for a name of a model that could not be written as `NAME@4`."""
    longest = schema.LONGEST_TAG
    require_no_key(name, "model")
    if not re.fullmatch(r"[\w.+-]+", name) or len(name) > longest or name == PRODUCTION:
        raise SpecError(
            f"model {name!r:.120} is not valid: write 1 to {longest} letters, digits and . _ - +, for example claims"
        )


def register_version(
    store: RunStore,
    model: str,
    frozen: FrozenAdapter,
    folder: Path,
    *,
    at: str,
    by: str,
    hide: Callable[[str], str] = str,
) -> tuple[Version, bool]:
    """Return the version of an adapter, and whether it is new: registered again, it has the same number.

    `folder` is the registry's, to which local weights are copied; `hide` redacts keys. Raises SpecError and StoreError.
    """
    check_model(model)
    _check_keys(frozen, hide)
    stored: Mapping[str, StoredWeights] = keep_weights(frozen.weights, folder)
    while True:
        registry = load_registry(store)
        version = _version(model, next_number(store, model), frozen, stored)
        number = find_number(store, model, version_key(version.identity, version.adapter.parameters))
        if number is not None:
            return _version(model, number, frozen, stored), False
        entry = LogEntry(
            at=at, action="register", model=model, number=version.number, state="draft", by=by, why=_step_text(frozen)
        )
        # Another process may have registered meanwhile, perhaps the same adapter.
        if add_version(store, registry, version, entry):
            return version, True


def _version(model: str, number: int, frozen: FrozenAdapter, stored: Mapping[str, StoredWeights]) -> Version:
    lineage = frozen.weights.lineage
    return Version(
        model=model,
        number=number,
        identity=frozen.identity,
        adapter=frozen.adapter,
        weights=stored,
        lineage=None if lineage is None else plain_or_repr(lineage),
    )


def _step_text(frozen: FrozenAdapter) -> str:
    """Return the log's text on weights that a recipe kept before its end."""
    lineage = frozen.weights.lineage
    return "" if lineage is None or lineage.step is None else f"step {lineage.step} of {lineage.recipe}"


def _check_keys(frozen: FrozenAdapter, hide: Callable[[str], str]) -> None:
    """Raise SpecError for a key in the adapter's table: the registry would store it."""
    plain = plain_or_repr(frozen.adapter)
    if redact(plain, hide) != plain:
        raise SpecError(
            f"adapter {frozen.adapter.name!r} has a key in its table, and the registry stores no keys: "
            "put the key into the environment, and name its variable with api_key_env"
        )
