"""Registers an adapter as a version: frozen, with a copy of its weights, which are checked later."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_crucible.adapters.adapter_kind import Weights
from pytest_crucible.adapters.config import find_adapter, read_adapters
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_rows import Pending, explain_missing, find_preparation
from pytest_crucible.adapters.kinds import kind_of
from pytest_crucible.adapters.opened_arm import freeze_prompt
from pytest_crucible.features.registry import is_version
from pytest_crucible.features.registry.log_directory import steps_text
from pytest_crucible.features.registry.records import LogEntry, StoredWeights, Version
from pytest_crucible.features.registry.store import (
    PRODUCTION,
    StoredRegistry,
    add_version,
    changed_versions,
    find_number,
    load_registry,
    load_versions,
    next_number,
    require_intact,
    version_key,
)
from pytest_crucible.features.registry.version_names import changed_text, registry_folder, weights_path
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.records.files import hash_file
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.secret_settings import require_no_key
from pytest_crucible.records.serialize import plain_or_repr
from pytest_crucible.runs.reproduction import ReproductionCheck
from pytest_crucible.runs.run_store import project_root
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True)
class FrozenAdapter:
    """The present state of an adapter."""

    adapter: Adapter
    """Its table as it is prepared, with the prompt's text instead of its file."""
    identity: str
    weights: Weights
    steps: int | None = None
    """The optimiser steps that the weights hold; None where they are not known."""


def freeze_adapter(name: str, context: AdapterContext) -> FrozenAdapter:
    """Open an adapter and return its state. Raises SpecError, also for an adapter that is not trained yet."""
    # The import loads backends, which checks of weights do not need.
    from pytest_crucible.adapters.opener import Opener, is_stored

    configured = read_adapters(context.root)
    if is_stored(name) or (is_version(name) and name not in configured):
        raise SpecError(f"{name!r} is not an adapter of the configuration: register the name of one, or a URI")
    opened = Opener(context).open(name, "candidate")
    if missing := explain_missing([opened]):
        raise SpecError("\n".join(missing))
    if opened.trainings:
        raise SpecError(
            f"adapter {name!r} has seeds, so it is several models: register one of its trainings, such as "
            f"local:{opened.trainings[0].arm.name}"
        )
    located = _locate(find_adapter(name, configured), context, configured)
    # The version keeps the prompt's text: its file may change.
    located = replace(located, variables=freeze_prompt(located, context.root))
    kind = kind_of(located)
    weights, steps = kind.find_weights(located, context), kind.find_steps(located, context)
    return FrozenAdapter(located, opened.arm.identity, weights, steps)


def _locate(adapter: Adapter, context: AdapterContext, configured: Mapping[str, Adapter]) -> Adapter:
    """Return the adapter with its paths resolved, as it is prepared: with a checkpoint in the place of a recipe."""
    typed_in = None if adapter.name in configured else context.invocation_folder
    located = kind_of(adapter).locate(adapter, context, configured, typed_in)
    preparation = find_preparation(located, context)
    ready = located if preparation is None else preparation.open(located, context, None)
    return located if isinstance(ready, Pending) else ready


def keep_weights(weights: Weights, folder: Path) -> Mapping[str, StoredWeights]:
    """Copy the files of an adapter, with their lineage, and return where they are. Raises SpecError."""
    stored = {}
    for option, path in weights.files.items():
        try:
            stored[option] = _copy(path, weights, folder)
        except OSError as error:
            raise SpecError(f"{path} cannot be copied into {str(folder)!r}: {error}") from error
    return stored


def check_weights(version: Version, folder: Path) -> None:
    """Raise SpecError for copied weights that were changed or are missing."""
    for stored in version.weights.values():
        path = weights_path(folder, stored)
        if not path.is_file():
            raise SpecError(f"weights of {version.name} are missing: {path} does not exist: restore it from a backup")
        if hash_file(path) != stored.sha256:
            raise SpecError(changed_text(version.name))


def _copy(path: Path, weights: Weights, folder: Path) -> StoredWeights:
    """Copy into a draft, then rename it: a folder appears whole or not at all, also where two processes register at once."""
    # Imported here: it loads numpy, which the list of versions does not need.
    from pytest_crucible.backends.lineages import write_lineage

    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".copying-", dir=folder))
    try:
        copied = draft / path.name
        shutil.copyfile(path, copied)
        # Of the copy: the file may be written again while it is read.
        stored = StoredWeights(sha256=hash_file(copied), file=path.name)
        if weights.lineage is not None:
            write_lineage(draft, weights.lineage)
        draft.chmod(0o755)
        place = weights_path(folder, stored)
        # Damaged weights are replaced by the same ones, intact.
        if place.is_file() and hash_file(place) != stored.sha256:
            shutil.rmtree(place.parent)
        # The folder exists: the same weights were registered before, or are registered by another process now.
        with contextlib.suppress(FileExistsError, OSError):
            os.rename(draft, place.parent)
        return stored
    finally:
        shutil.rmtree(draft, ignore_errors=True)


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
        steps=frozen.steps,
    )


def _step_text(frozen: FrozenAdapter) -> str:
    lineage = frozen.weights.lineage
    if lineage is not None and lineage.step is not None:
        return f"step {lineage.step} of {lineage.recipe}"
    return steps_text(frozen.steps) if frozen.adapter.options.get("model_path") else ""


def _check_keys(frozen: FrozenAdapter, hide: Callable[[str], str]) -> None:
    plain = plain_or_repr(frozen.adapter)
    if redact(plain, hide) != plain:
        raise SpecError(
            f"adapter {frozen.adapter.name!r} has a key in its table, and the registry stores no keys: "
            "put the key into the environment, and name its variable with api_key_env"
        )


def check_registry(store: RunStore, where: str) -> Iterator[ReproductionCheck]:
    """Yield the checks of the log, the versions that it registered, and their weights; none for a store without a registry."""
    registry = load_registry(store, check=False)
    versions = load_versions(store)
    if not (registry.rows or registry.head.number or versions):
        return
    problems = tuple(_problems(store, registry, versions, registry_folder(project_root(), where)))
    for problem in problems:
        yield ReproductionCheck("registry", False, problem)
    if not problems:
        rows = (
            f"{quantity(len(versions), 'version')}, {quantity(len(registry.rows), 'log row')} that match their hashes"
        )
        yield ReproductionCheck("registry", True, rows)


def _problems(store: RunStore, registry: StoredRegistry, versions: Sequence[Version], folder: Path) -> Iterator[str]:
    try:
        require_intact(registry.rows, registry.head)
    except CrucibleError as error:
        # What follows would be read from the broken log.
        yield str(error)
        return
    for name in changed_versions(store, registry):
        yield f"{name} is not what the registry log registered: restore the store from a backup"
    for version in versions:
        try:
            check_weights(version, folder)
        except CrucibleError as error:
            yield str(error)
