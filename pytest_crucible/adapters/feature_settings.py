"""Settings that features read of the tables of adapters, and wrappers that they put around whole adapters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.backends.stack import OuterWrapper
from pytest_crucible.features import left_out_sentence, load_rows
from pytest_crucible.features.row import Feature
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError


def pop_settings(name: str, backend: str, options: dict[str, Any], source: Path) -> dict[str, Any]:
    """Remove the settings of features from the options of an adapter, and return them as they are read. Raises SpecError."""
    # A kind's own option may have the name of the kind: `guard` is the guard that an adapter is, and elsewhere those around it.
    readers = {word: read for _, (word, read) in load_rows("adapter_settings") if word in options and word != backend}
    return {word: read(name, options.pop(word), source) for word, read in readers.items()}


def open_wrappers(adapter: Adapter, context: AdapterContext) -> tuple[OuterWrapper, ...]:
    """Return what features put around an adapter, from the inside out. Raises SpecError where it needs one that is left out."""
    for word, feature in _needed_features(adapter):
        if context.is_left_out(feature.plugin_name):
            raise SpecError(left_out_sentence(f"adapter {adapter.name!r} with {word}", feature))
    opened = (open_wrapper(adapter, context) for _, open_wrapper in load_rows("wrappers"))
    return tuple(wrapper for wrapper in opened if wrapper is not None)


def _needed_features(adapter: Adapter) -> Iterator[tuple[str, Feature]]:
    """Yield the features that an adapter needs, each with the word that names it."""
    for feature, kind in load_rows("adapter_kinds"):
        if kind.name == adapter.backend:
            yield f"backend {kind.name!r}", feature
    for feature, (word, _) in load_rows("adapter_settings"):
        if word in adapter.settings:
            yield word, feature
