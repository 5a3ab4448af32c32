"""Adapters with `backend = "local"`: the embedded model, alone or with a LoRA adapter from a checkpoint or a recipe."""

from __future__ import annotations

from pathlib import Path

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.options import check_options, required_text
from pytest_crucible.adapters.origin import Origin, shorten_path
from pytest_crucible.adapters.recipes import read_recipe
from pytest_crucible.adapters.weights import Weights
from pytest_crucible.backends import Backend
from pytest_crucible.backends.lineages import read_lineage
from pytest_crucible.backends.local import load_local, open_engine, sampling_params
from pytest_crucible.local_model.checkpoints import BASE_FILE, SAMPLER_FILE, find_sampler_file
from pytest_crucible.local_model.engine import PACKAGED
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import hash_file
from pytest_crucible.training import find_trained
from pytest_crucible.training.local_trainer import EmbeddedBase
from pytest_crucible.training.recipe import Base

RECIPE_OPTIONS = ("lora", "seed", "hyperparameters", "at", "save_every")
OPTIONS = ("recipe", "checkpoint", "base", *RECIPE_OPTIONS)


def open_local(adapter: Adapter, context: AdapterContext) -> Backend:
    """Open the base, or the base with `checkpoint`. Raises SpecError.

    `checkpoint` and `base` are relative to the configuration file. An adapter with a recipe is opened with the checkpoint
    that the recipe has made in the place of the recipe.
    """
    check_local(adapter)
    try:
        sampling_params(adapter.parameters)
    except ValueError as error:
        raise SpecError(f"adapter {adapter.name!r} has invalid parameters: {error}") from None
    # By then a trained recipe has been replaced by its checkpoint.
    if "recipe" in adapter.options:
        raise SpecError(
            f"adapter {adapter.name!r} has a recipe that is not trained yet: train it with --crucible-train"
        )
    base, checkpoint = _path(adapter, "base", context.root), _path(adapter, "checkpoint", context.root)
    return load_local(open_engine(base), checkpoint, name=adapter.name)


def open_base(adapter: Adapter, context: AdapterContext) -> Base:
    """Open the base model that a recipe trains an adapter of. Raises SpecError."""
    check_local(adapter)
    base = _path(adapter, "base", context.root)
    return EmbeddedBase(open_engine(base), "packaged" if base is None else str(base))


def find_origin(adapter: Adapter, context: AdapterContext) -> Origin:
    """Return the recipe and its data, or the base and the checkpoint. Raises SpecError."""
    if "recipe" in adapter.options:
        recipe = read_recipe(adapter, context)
        trained = find_trained(recipe, context.adapters_folder)
        data = {} if trained is None else trained.lineage.data
        return Origin(
            (recipe.identity,), {shorten_path(Path(name), context.root): sha256 for name, sha256 in data.items()}
        )
    base, checkpoint = _path(adapter, "base", context.root), _path(adapter, "checkpoint", context.root)
    # Only hashes: a replay must not load the model.
    weights = (base or PACKAGED) / BASE_FILE
    files = [] if checkpoint is None else [checkpoint / SAMPLER_FILE if checkpoint.is_dir() else checkpoint]
    return Origin(
        (hash_file(weights) if weights.is_file() else "",),
        {shorten_path(path, context.root): hash_file(path) for path in files if path.is_file()},
    )


def find_weights(adapter: Adapter, context: AdapterContext) -> Weights:
    """Return the checkpoint's file and lineage; an empty list for the plain base, whose identity identifies it."""
    checkpoint = _path(adapter, "checkpoint", context.root)
    if checkpoint is None:
        return Weights()
    file = find_sampler_file(checkpoint)
    return Weights({"checkpoint": file}, read_lineage(checkpoint))


def check_local(adapter: Adapter) -> None:
    """Raise SpecError for options of a local adapter that are unknown or contradict each other."""
    check_options(adapter, OPTIONS)
    has_recipe = "recipe" in adapter.options
    if has_recipe and "checkpoint" in adapter.options:
        raise SpecError(f"adapter {adapter.name!r} has a recipe and a checkpoint: remove one of them")
    for name in RECIPE_OPTIONS:
        if name in adapter.options and not has_recipe:
            raise SpecError(
                f"adapter {adapter.name!r} has {name!r}, which only a recipe uses: add a recipe, or remove it"
            )


def _path(adapter: Adapter, name: str, root: Path) -> Path | None:
    return root / Path(required_text(adapter, name)).expanduser() if name in adapter.options else None
