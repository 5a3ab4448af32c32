"""Resolves the versions that a session names (`claims@production`) once, when it starts, to their numbers.

Workers of pytest-xdist take the numbers from the controller: a promotion during the session changes nothing in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.adapters.config import read_adapters
from pytest_crucible.features.registry.version_names import is_version, resolve_version
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.settings import Settings
from pytest_crucible.features.registry.rules import alpha_of_look, era_runs, read_registry_settings
from pytest_crucible.store.runs import RunStore
from pytest_crucible.features.registry.states import PRODUCTION, RegistryState
from pytest_crucible.features.registry.store import load_registry, load_version


@dataclass(frozen=True)
class Resolved:
    """The names of versions, resolved for this session."""

    names: dict[str, str]
    """Name -> the version by its number; an unknown name is missing, and opening it reports why."""
    alpha: float | None = None
    """The error rate of this run's look in the era of the production version that it compares with; None outside of one."""


def resolve_settings(config: pytest.Config, settings: Settings) -> Settings:
    """Return the settings with versions by their numbers, and in an era with its error rate in the place of pooling."""
    if _RESOLVED not in config.stash:
        given = getattr(config, "workerinput", {}).get("crucible_versions")
        config.stash[_RESOLVED] = _resolve(config, settings) if given is None else Resolved(**given)
    resolved = config.stash[_RESOLVED]
    adapter = settings.adapter and resolved.names.get(settings.adapter, settings.adapter)
    compare = tuple(resolved.names.get(name, name) for name in settings.compare)
    settings = replace(settings, adapter=adapter, compare=compare)
    return settings if resolved.alpha is None else replace(settings, alpha=resolved.alpha, memory="off")


def worker_input(config: pytest.Config) -> dict[str, Any] | None:
    """Return the resolved names as plain data, for xdist."""
    return asdict(config.stash[_RESOLVED]) if _RESOLVED in config.stash else None


def _resolve(config: pytest.Config, settings: Settings) -> Resolved:
    era_alpha = _read_era_alpha(config.rootpath)
    where = settings.store if "://" in settings.store else str(config.rootpath / settings.store)
    resolved = Resolved({})
    # Errors are reported when the arms are opened, together with all others.
    with contextlib.suppress(CrucibleError), _existing_store(where) as store:
        state = load_registry(store, check=False).state
        resolved = Resolved(_numbers(config.rootpath, settings, state, where))
        resolved = replace(resolved, alpha=_look_alpha(era_alpha, settings, resolved.names, state, store))
    return resolved


@contextlib.contextmanager
def _existing_store(where: str) -> Iterator[RunStore]:
    """Open a store that exists: a session without experiments creates none."""
    if "://" not in where and not Path(where).is_file():
        raise CrucibleError(where)
    with contextlib.closing(RunStore(where)) as store:
        yield store


def _numbers(root: Path, settings: Settings, state: RegistryState, where: str) -> dict[str, str]:
    configured, numbers = read_adapters(root), dict[str, str]()
    for name in filter(None, (settings.adapter, *settings.compare)):
        if is_version(name) and name not in configured:
            with contextlib.suppress(CrucibleError):
                model, number = resolve_version(name, state, where)
                numbers[name] = f"{model}@{number}"
    return numbers


def _read_era_alpha(root: Path) -> float | None:
    try:
        return read_registry_settings(root).era_alpha
    except CrucibleError as error:
        raise pytest.UsageError(str(error)) from error


def _look_alpha(
    era_alpha: float | None, settings: Settings, names: dict[str, str], state: RegistryState, store: RunStore
) -> float | None:
    """Return the error rate of the next look, where a baseline is in production and the project declares an era."""
    if era_alpha is None:
        return None
    baselines = {names[name] for name in settings.compare if name in names}
    holders = (state.holder(model, PRODUCTION) for model in state.models)
    for holder in holders:
        if holder is not None and holder.name in baselines:
            version = load_version(store, holder.model, holder.number)
            if version is not None:
                return alpha_of_look(era_alpha, len(era_runs(store, version)) + 1)
    return None


_RESOLVED = pytest.StashKey[Resolved]()
