"""Checks the whole registry: the chain of its log, the rows of its versions, and their weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.registry import Version
from pytest_crucible.registry.weights import check_weights
from pytest_crucible.store.registry_log import require_intact
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.versions import StoredRegistry, changed_versions


def registry_problems(
    store: RunStore, registry: StoredRegistry, versions: Sequence[Version], folder: Path
) -> tuple[str, ...]:
    """Return the faults, a sentence each; empty if everything is as it was registered."""
    return tuple(_problems(store, registry, versions, folder))


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
