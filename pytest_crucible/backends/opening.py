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


BUILT_IN: dict[str, Callable[[Adapter, Path], Backend]] = {"recorded": open_recorded, "scripted": open_scripted}


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
