"""From an adapter's configuration to the built-in backend that it names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.recorded import recorded
from pytest_crucible.backends.scripted import ScriptedBackend
from pytest_crucible.errors import SpecError
from pytest_crucible.records import Adapter

RECIPE_OPTIONS = ("lora", "seed")
LOCAL_OPTIONS = ("recipe", "checkpoint", "base", *RECIPE_OPTIONS)


def open_recorded(adapter: Adapter, root: Path) -> Backend:
    """`path`: a JSONL file of answers, relative to the configuration file."""
    _check_options(adapter, ("path",))
    return recorded(root / Path(_option(adapter, "path")).expanduser())


def open_scripted(adapter: Adapter, root: Path) -> Backend:
    """`script`: "module:function", called with each Request. Optional `latency_s`."""
    _check_options(adapter, ("script", "latency_s"))
    module, _, name = _option(adapter, "script").partition(":")
    try:
        script = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SpecError(
            f"adapter {adapter.name!r} has script {adapter.options['script']!r}, which cannot be imported ({error}): "
            "write 'module:function' of a module on the path"
        ) from error
    return ScriptedBackend(script, latency_s=float(adapter.options.get("latency_s", 0.0)))


def open_local(adapter: Adapter, root: Path) -> Backend:
    """The embedded model: its base, or with an adapter. `checkpoint` and `base` are relative to the configuration file.

    What a `recipe` makes is given here as the checkpoint that it was trained to.
    """
    from pytest_crucible.backends.local import local, open_engine, sampling_params

    check_local(adapter)
    try:
        sampling_params(adapter.parameters)
    except ValueError as error:
        raise SpecError(f"adapter {adapter.name!r} has parameters that mean nothing: {error}") from None
    if "recipe" in adapter.options:
        raise SpecError(f"adapter {adapter.name!r} has a recipe, which has to be trained before it is opened")
    return local(open_engine(base_of(adapter, root)), checkpoint_of(adapter, root), name=adapter.name)


def open_openai(adapter: Adapter, root: Path) -> Backend:
    """An OpenAI-shaped server: `base_url`, `model`, and what else docs/how-to/servers.md tells."""
    from pytest_crucible.backends.openai import backend  # it opens asyncio, ssl and an HTTP parser

    return backend.open_openai(adapter, root)


def base_of(adapter: Adapter, root: Path) -> Path | None:
    """The directory of the base model that a local adapter names; None for the packaged one."""
    return _path(adapter, "base", root)


def checkpoint_of(adapter: Adapter, root: Path) -> Path | None:
    """The checkpoint that a local adapter names; None for its base alone."""
    return _path(adapter, "checkpoint", root)


def check_local(adapter: Adapter) -> None:
    """Raise SpecError for settings of a local adapter that are unknown or contradict each other."""
    _check_options(adapter, LOCAL_OPTIONS)
    has_recipe = "recipe" in adapter.options
    if has_recipe and "checkpoint" in adapter.options:
        raise SpecError(f"adapter {adapter.name!r} has a recipe and a checkpoint: it is made by one of them")
    for name in RECIPE_OPTIONS:
        if name in adapter.options and not has_recipe:
            raise SpecError(f"adapter {adapter.name!r} has {name!r} but no recipe, which alone is trained with it")


def _path(adapter: Adapter, name: str, root: Path) -> Path | None:
    return root / Path(_option(adapter, name)).expanduser() if name in adapter.options else None


BUILT_IN: dict[str, Callable[[Adapter, Path], Backend]] = {
    "local": open_local,
    "openai": open_openai,
    "recorded": open_recorded,
    "scripted": open_scripted,
}


def _check_options(adapter: Adapter, known: tuple[str, ...]) -> None:
    unknown = sorted(set(adapter.options) - set(known))
    if unknown:
        raise SpecError(
            f"adapter {adapter.name!r} has {unknown[0]!r}, which backend {adapter.backend!r} does not know: "
            f"it takes {', '.join(known)}, and parameters"
        )


def _option(adapter: Adapter, name: str) -> str:
    value = adapter.options.get(name)
    if not isinstance(value, str):
        raise SpecError(f'adapter {adapter.name!r} has backend {adapter.backend!r} but no {name!r}: add {name} = "..."')
    return value
