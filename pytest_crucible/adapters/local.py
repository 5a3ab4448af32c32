"""Adapters with `backend = "local"`: the embedded model, alone or with a LoRA adapter from a checkpoint or a recipe."""

from __future__ import annotations

from pathlib import Path

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.options import check_options, required_text
from pytest_crucible.adapters.origin import Origin, shorten_path
from pytest_crucible.adapters.preparations import check_preparation, option_names
from pytest_crucible.adapters.weights import Weights
from pytest_crucible.backends import Backend
from pytest_crucible.backends.lineages import read_lineage
from pytest_crucible.backends.local import load_local, open_engine, sampling_params
from pytest_crucible.local_model.checkpoints import BASE_FILE, SAMPLER_FILE, find_sampler_file
from pytest_crucible.local_model.engine import PACKAGED
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import hash_file

OPTIONS = ("checkpoint", "base")


def open_local(adapter: Adapter, context: AdapterContext) -> Backend:
    """Open the base, or the base with `checkpoint`. Raises SpecError.

    `checkpoint` and `base` are relative to the configuration file. An adapter that is prepared comes with its checkpoint.
    """
    check_local(adapter)
    try:
        sampling_params(adapter.parameters)
    except ValueError as error:
        raise SpecError(f"adapter {adapter.name!r} has invalid parameters: {error}") from None
    base, checkpoint = option_path(adapter, "base", context.root), option_path(adapter, "checkpoint", context.root)
    return load_local(open_engine(base), checkpoint, name=adapter.name)


def find_origin(adapter: Adapter, context: AdapterContext) -> Origin:
    """Return the base and the checkpoint. Raises SpecError."""
    base, checkpoint = (option_path(adapter, name, context.root) for name in ("base", "checkpoint"))
    # Only hashes: a replay must not load the model.
    weights = (base or PACKAGED) / BASE_FILE
    files = [] if checkpoint is None else [checkpoint / SAMPLER_FILE if checkpoint.is_dir() else checkpoint]
    return Origin(
        (hash_file(weights) if weights.is_file() else "",),
        {shorten_path(path, context.root): hash_file(path) for path in files if path.is_file()},
    )


def find_weights(adapter: Adapter, context: AdapterContext) -> Weights:
    """Return the checkpoint's file and lineage; an empty list for the plain base, whose identity identifies it."""
    checkpoint = option_path(adapter, "checkpoint", context.root)
    if checkpoint is None:
        return Weights()
    file = find_sampler_file(checkpoint)
    return Weights({"checkpoint": file}, read_lineage(checkpoint))


def check_local(adapter: Adapter) -> None:
    """Raise SpecError for options of a local adapter that are unknown or contradict each other."""
    check_options(adapter, option_names(adapter.backend, OPTIONS))
    check_preparation(adapter, instead_of="checkpoint")


def option_path(adapter: Adapter, name: str, root: Path) -> Path | None:
    """Return the path that an option names, relative to the configuration; None without the option. Raises SpecError."""
    return root / Path(required_text(adapter, name)).expanduser() if name in adapter.options else None
