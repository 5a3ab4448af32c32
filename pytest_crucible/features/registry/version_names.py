"""Versions of registered models as adapters: `claims@4`, `claims@production`, `claims@staged`, and `production`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.origin import shorten_path
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError
from pytest_crucible.features.registry.records import StoredWeights, Version, is_numbered
from pytest_crucible.records.suggestions import suggest
from pytest_crucible.store.runs import RunStore
from pytest_crucible.features.registry.states import PRODUCTION, STAGED, RegistryState
from pytest_crucible.features.registry.store import load_registry, load_version

_NAME = re.compile(rf"(?P<model>[\w.+-]+)@(?P<which>\d+|{PRODUCTION}|{STAGED})")


def is_version(name: str) -> bool:
    """Return whether an adapter's name means a registered version. A configured adapter with that name comes first.

    >>> is_version("claims@4"), is_version("claims@production"), is_version("production"), is_version("v2")
    (True, True, True, False)
    """
    return name == PRODUCTION or _NAME.fullmatch(name) is not None


def resolve_version(name: str, state: RegistryState, location: str) -> tuple[str, int]:
    """Return model and number of a version. Raises SpecError for an unknown one, and for `production` of several models."""
    match = _NAME.fullmatch(name)
    model, which = (match["model"], match["which"]) if match else (_only_model(state, location), PRODUCTION)
    if model not in state.models:
        others = suggest(model, state.models, always=_list_models(state))
        raise SpecError(f"{name!r} is not registered in {location!r}: {others}")
    if which.isdigit():
        if (model, int(which)) not in state.statuses:
            raise SpecError(f"{model} has no version {int(which)}: it has 1 to {len(state.of(model))}")
        return model, int(which)
    holder = next((status for status in state.of(model) if status.state == which), None)
    if holder is None:
        raise SpecError(
            f"{model} has no version {'in production' if which == PRODUCTION else 'staged'}: "
            f"promote one with `crucible models promote RUN --to {which}`"
        )
    return model, holder.number


def find_version(store: RunStore, name: str) -> Version:
    """Return the version that a name means now. Raises SpecError."""
    # A broken log stops `models promote` and `doctor`, not a measurement.
    model, number = resolve_version(name, load_registry(store, check=False).state, store.location)
    version = load_version(store, model, number)
    if version is None:
        raise SpecError(
            f"{model}@{number} is in the registry log, and its row is missing: restore the store from a backup"
        )
    return version


def version_adapter(version: Version, folder: Path, root: Path, *, needs_files: bool = True) -> Adapter:
    """Return a version as an adapter, with the paths of its copied weights. `folder` is the registry's.

    Raises SpecError for weights that are not here, where `needs_files`.
    """
    paths = {option: weights_path(folder, stored) for option, stored in version.weights.items()}
    for path in paths.values():
        if needs_files and not path.is_file():
            raise SpecError(
                f"weights of {version.name} are not here: {path} does not exist: copy it from the machine that registered them"
            )
    located: Mapping[str, str] = {option: shorten_path(path, root) for option, path in paths.items()}
    return replace(version.adapter, name=version.name, options={**version.adapter.options, **located})


def find_training_start(name: str, context: AdapterContext) -> str:
    """Return the weights of a registered version that a training may start from; a text that is not a version unchanged.

    Raises SpecError for a version that is not registered, and for `claims@production`, which is another version tomorrow.
    """
    if not is_version(name):
        return name
    if not is_numbered(name):
        raise SpecError(
            f"{name!r} may be another version tomorrow, and this adapter would not be trained again: name a version by its "
            "number, such as claims@1"
        )
    version = context.versions(name)
    # A service resumes from a state, and samples from other weights.
    state = (version.lineage or {}).get("state")
    if state:
        return str(state)
    adapter = version_adapter(version, context.registry_folder, context.root)
    if "checkpoint" not in adapter.options:
        raise SpecError(f"{name} has no weights to train from: name a version that a recipe has trained")
    return str(context.root / adapter.options["checkpoint"])


def weights_path(folder: Path, stored: StoredWeights) -> Path:
    """Return the place of copied weights, in the folder of their hash."""
    return folder / stored.sha256 / stored.file


def changed_weights(version: str) -> SpecError:
    """Return the error for a version whose weights are not those that were registered."""
    return SpecError(f"weights of {version} changed since it was registered: register them as a new version")


def _only_model(state: RegistryState, location: str) -> str:
    if len(state.models) == 1:
        return state.models[0]
    if not state.models:
        raise SpecError(f"{PRODUCTION!r}: {_list_models(state)} in {location!r}")
    count = {2: "two"}.get(len(state.models), str(len(state.models)))
    raise SpecError(f"{PRODUCTION!r} is ambiguous with {count} models: write {state.models[0]}@{PRODUCTION}")


def _list_models(state: RegistryState) -> str:
    if not state.models:
        return "no model is registered: `crucible models register ADAPTER --model NAME` registers one"
    return f"the models are {', '.join(sorted(state.models))}"
