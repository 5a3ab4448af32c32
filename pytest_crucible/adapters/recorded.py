"""Adapters with `backend = "recorded"`: replies that already exist, in a JSONL file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.options import check_options, required_text
from pytest_crucible.adapters.weights import Weights
from pytest_crucible.backends import Backend, load_recorded
from pytest_crucible.records import Adapter


def open_recorded(adapter: Adapter, context: AdapterContext) -> Backend:
    """Open the backend that reads its replies from `path`, a JSONL file. Raises SpecError and DatasetError."""
    check_options(adapter, ("path",))
    return load_recorded(context.root / Path(required_text(adapter, "path")).expanduser())


def find_weights(adapter: Adapter, context: AdapterContext) -> Weights:
    """Return the file of replies, which takes the place of weights."""
    return Weights({"path": context.root / Path(required_text(adapter, "path")).expanduser()})


def locate_answers(
    adapter: Adapter, context: AdapterContext, configured: Mapping[str, Adapter], typed_in: Path | None
) -> Adapter:
    """Return the adapter with its file relative to the folder of the command line that named it."""
    if typed_in is None:
        return adapter
    return replace(adapter, options={"path": str(typed_in / adapter.options["path"])})
