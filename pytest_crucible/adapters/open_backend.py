"""Opens the backend of an adapter, replays it from the cache, or puts off opening until it is prepared."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.kinds import all_kinds, kind_of
from pytest_crucible.adapters.preparations import Pending, find_preparation
from pytest_crucible.adapters.replay import remember_adapter, replay_backend
from pytest_crucible.backends import Backend
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError


def prepare_adapter(
    adapter: Adapter, context: AdapterContext, configured: Mapping[str, Adapter], typed_in: Path | None
) -> Adapter:
    """Return the adapter with its paths resolved and the session's seed among its parameters. Raises SpecError."""
    kind = kind_of(adapter)
    # A replay needs no checkpoint: the adapter is recognised by its settings.
    with contextlib.suppress(SpecError) if context.is_replay else contextlib.nullcontext():
        adapter = kind.locate_files(adapter, context, configured, typed_in)
    # A seed in the adapter's own table wins.
    if kind.is_seeded:
        adapter = replace(adapter, parameters={"seed": context.settings.seed, **adapter.parameters})
    return adapter


def open_backend(adapter: Adapter, context: AdapterContext, prepared: Any) -> Backend:
    """Return the adapter's backend, without wrappers. `prepared` is the result of its preparation in this session.

    Raises SpecError for settings that cannot be opened, and for an unknown backend.
    """
    open_now = partial(_open_or_defer, context=context, prepared=prepared)
    backend = replay_backend(adapter, context, open_now) if context.is_replay else open_now(adapter)
    if backend is None:
        raise SpecError(
            f"adapter {adapter.name!r} has backend {adapter.backend!r}, which neither the package nor a plugin "
            f"provides: write one of {', '.join(sorted(all_kinds()))}"
        )
    if not (context.is_replay or isinstance(backend, Pending)):
        remember_adapter(adapter, backend, context)
    return backend


def _open_or_defer(adapter: Adapter, context: AdapterContext, prepared: Any) -> Backend | None:
    """Open the adapter, or return a placeholder where it is not prepared yet."""
    preparation = find_preparation(adapter, context)
    if preparation is not None:
        ready = preparation.open(adapter, context, prepared)
        if isinstance(ready, Pending):
            return ready
        adapter = ready
    return kind_of(adapter).open_backend(adapter, context)
