"""Versions of registered models as adapters: `claims@4`, `claims@production`, `claims@staged`, and `production`.

A session resolves those of its settings once, when it starts, and workers take the numbers from the controller.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.adapter_kind import shorten_path
from pytest_crucible.adapters.config import read_adapters
from pytest_crucible.adapters.context import AdapterContext, files_folder
from pytest_crucible.adapters.feature_rows import AdapterNames, NamedAdapter
from pytest_crucible.features.registry import VERSION_NAME, is_version
from pytest_crucible.features.registry.records import StoredWeights, Version, is_numbered
from pytest_crucible.features.registry.store import PRODUCTION, RegistryState, load_registry, load_version
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import CrucibleError, SpecError, suggest
from pytest_crucible.records.settings import Settings
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.store.runs import RunStore

if TYPE_CHECKING:
    from pytest_crucible.session.settings import SettingsDraft


def resolve_version(name: str, state: RegistryState, location: str) -> tuple[str, int]:
    """Return model and number of a version. Raises SpecError for an unknown one, and for `production` of several models."""
    match = re.fullmatch(VERSION_NAME, name)
    model, which = (match["model"], match["which"]) if match else (_only_model(state, location), PRODUCTION)
    if model not in state.models:
        others = suggest(model, state.models, always=_list_models(state))
        raise SpecError(f"{name!r} is not registered in {location!r}: {others}")
    if which.isdecimal():
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


def find_adapter(name: str, context: AdapterContext) -> NamedAdapter:
    """Return the adapter that a version's name means now. Raises SpecError, also for weights that are not here."""
    version = find_version(context.store(), name)
    folder = registry_folder(context.root, context.settings.store)
    adapter = version_adapter(version, folder, context.root, needs_files=not context.is_replay)
    return NamedAdapter(adapter, version.identity, changed_text(version.name))


def find_training_start(name: str, context: AdapterContext) -> str:
    """Return the weights of a registered version that a training may start from.

    Raises SpecError for a version that is not registered, and for `claims@production`, which is another version tomorrow.
    """
    if not is_numbered(name):
        raise SpecError(
            f"{name!r} may be another version tomorrow, and this adapter would not be trained again: name a version by its "
            "number, such as claims@1"
        )
    version = find_version(context.store(), name)
    # A service resumes from a state, and samples from other weights.
    state = (version.lineage or {}).get("state")
    if state:
        return str(state)
    adapter = version_adapter(version, registry_folder(context.root, context.settings.store), context.root)
    if "checkpoint" not in adapter.options:
        raise SpecError(f"{name} has no weights to train from: name a version that a recipe has trained")
    return str(context.root / adapter.options["checkpoint"])


NAMES = (AdapterNames(find_adapter, find_training_start),)


def registry_folder(root: Path, store: str) -> Path:
    """Return the folder with the copied weights of a run store, in the folders of their hashes."""
    return files_folder(root, store) / "registry"


def weights_path(folder: Path, stored: StoredWeights) -> Path:
    """Return the place of copied weights, in the folder of their hash."""
    return folder / stored.sha256 / stored.file


def changed_text(version: str) -> str:
    """Return the sentence that refuses a version whose weights are not those that were registered."""
    return f"weights of {version} changed since it was registered: register them as a new version"


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


FACT = "versions"
"""The key of the resolved names among the facts of a session."""


def resolve_settings(draft: SettingsDraft) -> None:
    """Put versions by their numbers into the settings, and in an era its error rate in the place of pooling.

    This is done once, when the session starts: a promotion meanwhile changes nothing in it.
    """
    if FACT not in draft.facts:
        draft.facts[FACT] = _resolve(draft.root, draft.settings)
    names, alpha = draft.facts[FACT]["names"], draft.facts[FACT]["alpha"]
    adapter = draft.settings.adapter and names.get(draft.settings.adapter, draft.settings.adapter)
    compare = tuple(names.get(name, name) for name in draft.settings.compare)
    era: dict[str, Any] = {} if alpha is None else {"alpha": alpha, "memory": "off"}
    draft.settings = replace(draft.settings, adapter=adapter, compare=compare, **era)
    draft.typed_names |= {number: name for name, number in names.items() if name != number}


def _resolve(root: Path, settings: Settings) -> dict[str, Any]:
    """Return the versions of the session's names by their numbers, and the error rate of its look; None outside of an era.

    An unknown name is missing: opening it reports why.
    """
    # Only sessions with a version need the rules.
    from pytest_crucible.features.registry.rules import read_registry_settings

    era_alpha = read_registry_settings(root).era_alpha
    where = settings.store if "://" in settings.store else str(root / settings.store)
    names, alpha = dict[str, str](), None
    # Errors are reported when the arms are opened, together with all others.
    with contextlib.suppress(CrucibleError), existing_store(where) as store:
        state = load_registry(store, check=False).state
        names = _numbers(root, settings, state, where)
        alpha = _look_alpha(era_alpha, settings, names, state, store)
    return {"names": names, "alpha": alpha}


def _numbers(root: Path, settings: Settings, state: RegistryState, where: str) -> dict[str, str]:
    configured, numbers = read_adapters(root), dict[str, str]()
    for name in filter(None, (settings.adapter, *settings.compare)):
        if is_version(name) and name not in configured:
            with contextlib.suppress(CrucibleError):
                model, number = resolve_version(name, state, where)
                numbers[name] = f"{model}@{number}"
    return numbers


def _look_alpha(
    era_alpha: float | None, settings: Settings, names: dict[str, str], state: RegistryState, store: RunStore
) -> float | None:
    """Return the error rate of the next look, where a baseline is in production and the project declares an era."""
    from pytest_crucible.features.registry.rules import alpha_of_look, era_runs

    if era_alpha is None:
        return None
    baselines = {names[name] for name in settings.compare if name in names}
    holders = (state.holder(model, PRODUCTION) for model in state.models)
    for holder in holders:
        if holder is not None and holder.version in baselines:
            version = load_version(store, holder.model, holder.number)
            if version is not None:
                return alpha_of_look(era_alpha, len(era_runs(store, version)) + 1)
    return None
