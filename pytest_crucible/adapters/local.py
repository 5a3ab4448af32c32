"""Adapters with `backend = "local"`: the embedded model, alone or with a LoRA adapter from a checkpoint or a recipe.

A checkpoint is the path of a file or directory, or a name, as in `local:NAME` and `checkpoint = "NAME"`. A name is looked up in
this order: another local adapter in the configuration, whose settings are used; a trained adapter in `.crucible/adapters`, by its
directory or by the adapter's name (then the newest); sampler weights that were saved on the local Tinker server (the newest).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_crucible.adapters.adapter_kind import Origin, Weights, check_options, option_path, shorten_path
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_rows import check_preparation, option_names
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError

if TYPE_CHECKING:
    from pytest_crucible.backends import Backend

OPTIONS = ("checkpoint", "base")


def open_local(adapter: Adapter, context: AdapterContext) -> Backend:
    """Open the base, or the base with `checkpoint`. Raises SpecError.

    `checkpoint` and `base` are relative to the configuration file. An adapter that is prepared comes with its checkpoint.
    """
    from pytest_crucible.backends.local import load_local, open_engine, sampling_params

    check_local(adapter)
    try:
        sampling_params(adapter.parameters)
    except ValueError as error:
        raise SpecError(f"adapter {adapter.name!r} has invalid parameters: {error}") from None
    base, checkpoint = option_path(adapter, "base", context.root), option_path(adapter, "checkpoint", context.root)
    return load_local(open_engine(base), checkpoint, name=adapter.name)


def find_origin(adapter: Adapter, context: AdapterContext) -> Origin:
    """Return the base and the checkpoint. Raises SpecError."""
    from pytest_crucible.local_model.checkpoints import BASE_FILE, SAMPLER_FILE
    from pytest_crucible.local_model.engine import PACKAGED
    from pytest_crucible.records.files import hash_file

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
    from pytest_crucible.backends.lineages import read_lineage
    from pytest_crucible.local_model.checkpoints import find_sampler_file

    checkpoint = option_path(adapter, "checkpoint", context.root)
    if checkpoint is None:
        return Weights()
    return Weights({"checkpoint": find_sampler_file(checkpoint)}, read_lineage(checkpoint))


def find_steps(adapter: Adapter, context: AdapterContext) -> int | None:
    """Return the optimiser steps of weights that a recipe has made; None where training continued from others."""
    lineage = find_weights(adapter, context).lineage
    return None if lineage is None or lineage.parent else lineage.step or lineage.result.training_steps


def check_local(adapter: Adapter) -> None:
    """Raise SpecError for options of a local adapter that are unknown or contradict each other."""
    check_options(adapter, option_names(adapter.backend, OPTIONS))
    check_preparation(adapter, instead_of="checkpoint")


# -- names of checkpoints ---------------------------------------------------------------------------------------------------

TINKER = Path(".crucible") / "tinker"
"""Where the local Tinker server keeps checkpoints, below pytest's root directory."""


def resolve_checkpoint(
    adapter: Adapter, context: AdapterContext, configured: Mapping[str, Adapter], typed_in: Path | None
) -> Adapter:
    """Return the adapter with the path of its checkpoint. `typed_in` is the folder of a command line that named it.

    Raises SpecError with the nearest names for a checkpoint that is neither a path nor a name.
    """
    checkpoint = adapter.options.get("checkpoint")
    if not isinstance(checkpoint, str):
        return adapter  # opening it reports what is wrong
    path = (typed_in or context.root) / Path(checkpoint).expanduser()
    if path.exists():
        # A configured path stays as it is written, because the reply cache recognises an adapter by its settings.
        return adapter if typed_in is None else _at(adapter, path)
    # Its own name as a checkpoint is not the adapter itself, but weights with that name.
    other = configured.get(checkpoint)
    if other is not None and other.backend == adapter.backend and other.options.get("checkpoint") != checkpoint:
        return replace(
            other,
            name=adapter.name,
            parameters={**other.parameters, **adapter.parameters},
            variables={**other.variables, **adapter.variables},
            trained_on=(*other.trained_on, *adapter.trained_on),
        )
    named = _saved_checkpoints(context.adapters_folder, context.root / TINKER)
    if checkpoint in named:
        return _at(adapter, named[checkpoint])
    # With a separator, a dot or a tilde it was meant as a path: suggesting names would mislead.
    if any(mark in checkpoint for mark in "/\\.~"):
        raise SpecError(f"adapter {adapter.name!r} cannot be opened: {path} does not exist: correct its path")
    others = [name for name, candidate in configured.items() if candidate.backend == adapter.backend]
    raise SpecError(
        f"adapter {adapter.name!r} cannot be opened: file {checkpoint!r} does not exist, "
        f"and {_suggest(checkpoint, {*others, *named})}"
    )


def _at(adapter: Adapter, path: Path) -> Adapter:
    return replace(adapter, options={**adapter.options, "checkpoint": str(path)})


def _saved_checkpoints(adapters: Path, tinker: Path) -> dict[str, Path]:
    """Return the checkpoints with a name on this machine. Trained adapters precede saved weights, newer ones older ones."""
    paths: dict[str, Path] = {}
    for name, path in (*_find_trained(adapters), *_find_saved(tinker)):
        paths.setdefault(name, path)
    return paths


def _find_trained(folder: Path) -> Iterator[tuple[str, Path]]:
    from pytest_crucible.backends.lineages import trained_adapters

    # Adapters without a hash have their weights on a service.
    trained = [adapter for adapter in trained_adapters(folder) if adapter.lineage.adapter_sha256]
    yield from ((adapter.path.relative_to(folder).as_posix(), adapter.path) for adapter in trained)
    # A training that stopped, and a kept step, are found by their directories only: the adapter's name never means one of them.
    named = (
        (adapter.lineage.adapter.removeprefix("local:"), adapter)
        for adapter in trained
        if not adapter.lineage.stopped and adapter.lineage.step is None
    )
    yield from ((name, adapter.path) for name, adapter in named if name)


def _find_saved(directory: Path) -> Iterator[tuple[str, Path]]:
    if (directory / "checkpoints").is_dir():
        from pytest_crucible.local_model.server.archive import SAMPLER, Archive

        saved = Archive(directory).all()
        yield from (
            (checkpoint.path.name, checkpoint.directory) for checkpoint in saved if checkpoint.path.kind == SAMPLER
        )


def _suggest(checkpoint: str, names: Iterable[str]) -> str:
    candidates = sorted(names)
    if not candidates:
        return "no checkpoint has been trained or saved here"
    near = difflib.get_close_matches(checkpoint, candidates, n=3, cutoff=0.5)  # 0.5 still suggests v2 for v3
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(candidates[:10])}"
    return f"no checkpoint has that name: {hint}"
