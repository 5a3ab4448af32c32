"""The kinds of adapter: one row each, which declares everything that differs between kinds.

Features add rows to the table `adapter_kinds`. Users add kinds of their own by the hook `pytest_crucible_backend`, which is called
first and may replace a built-in kind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters import local, tinker
from pytest_crucible.adapters.adapter_kind import (
    AdapterKind,
    Origin,
    UriForm,
    Weights,
    check_options,
    read_rest,
    required_text,
)
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_rows import Preparation, find_preparation
from pytest_crucible.features import load_rows
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Arm
from pytest_crucible.records.errors import SpecError

if TYPE_CHECKING:
    from pytest_crucible.backends import Backend


def open_recorded(adapter: Adapter, context: AdapterContext) -> Backend:
    """Open the backend that reads its replies from `path`, a JSONL file. Raises SpecError and DatasetError."""
    from pytest_crucible.backends import load_recorded

    check_options(adapter, ("path",))
    return load_recorded(_answers(adapter, context.root))


def _answers(adapter: Adapter, root: Path) -> Path:
    return root / Path(required_text(adapter, "path")).expanduser()


def _locate_answers(
    adapter: Adapter, context: AdapterContext, configured: Mapping[str, Adapter], typed_in: Path | None
) -> Adapter:
    """Return the adapter with its file relative to the folder of the command line that named it."""
    return adapter if typed_in is None else replace(adapter, options={"path": str(typed_in / adapter.options["path"])})


def open_scripted(adapter: Adapter, context: AdapterContext) -> Backend:
    """Open `script`, a "module:function" that is called with each Request; `latency_s` is optional. Raises SpecError.

    For tests: results are marked simulated.
    """
    from pytest_crucible.backends import ScriptedBackend
    from pytest_crucible.records.object_reference import import_function

    check_options(adapter, ("script", "latency_s"))
    script = import_function(f"adapter {adapter.name!r} has script", required_text(adapter, "script"))
    return ScriptedBackend(script, latency_s=float(adapter.options.get("latency_s", 0.0)))


def _open_server(adapter: Adapter, context: AdapterContext) -> Backend:
    """Open `model` at `base_url`; docs/how-to/adapters.md has all settings. Raises SpecError."""
    from pytest_crucible.backends.openai.backend import open_openai

    return open_openai(adapter, context.root, context.node)


def read_server_uri(uri: str, adapter: str) -> Mapping[str, Any]:
    """Return URL and model of an OpenAI-compatible server. Raises SpecError for a URI without a model.

    >>> read_server_uri("openai+http://localhost:8000/v1#v2", "v2")
    {'base_url': 'http://localhost:8000/v1', 'model': 'v2'}
    """
    prefix, _, address = uri.partition("+")
    url, _, model = address.partition("#")
    if not model:
        raise SpecError(f"adapter {adapter!r} names no model: write {prefix}+{url}#MODEL")
    return {"base_url": url, "model": model}


KINDS = (
    AdapterKind(
        name="recorded",
        open=open_recorded,
        uri=UriForm(("recorded",), read_rest("path")),
        locate=_locate_answers,
        find_weights=lambda adapter, context: Weights({"path": _answers(adapter, context.root)}),
        is_offline=True,
    ),
    AdapterKind(
        name="local",
        open=local.open_local,
        uri=UriForm(("local",), read_rest("checkpoint")),
        locate=local.resolve_checkpoint,
        find_origin=local.find_origin,
        find_weights=local.find_weights,
        find_steps=local.find_steps,
        is_seeded=True,
        is_free=True,
    ),
    AdapterKind(
        name="tinker",
        open=tinker.open_tinker,
        uri=UriForm(("tinker",), tinker.read_uri),
        find_origin=lambda adapter, context: Origin((context.settings.tinker, context.settings.tinker_base)),
        find_weights=tinker.find_weights,
        find_expiry=tinker.find_expiry,
        find_steps=tinker.find_steps,
        is_seeded=True,
    ),
    AdapterKind(
        name="openai",
        open=_open_server,
        uri=UriForm(("openai+http", "openai+https"), read_server_uri),
        sends_messages=True,
    ),
    AdapterKind(name="scripted", open=open_scripted, is_offline=True),
)


@cache
def all_kinds() -> Mapping[str, AdapterKind]:
    """Return the kinds by name, those of features after the others. `backend` may name each of them."""
    return {kind.name: kind for kind in (*KINDS, *(kind for _, kind in load_rows("adapter_kinds")))}


def kind_of(adapter: Adapter) -> AdapterKind:
    """Return the adapter's kind; for a backend that only a user's hook can open, a kind with no abilities."""
    # A backend without a row has the defaults: no URI, no seed, and replies that are cached.
    return all_kinds().get(adapter.backend) or AdapterKind(name=adapter.backend)


def kind_of_arm(arm: Arm) -> AdapterKind:
    """Return the kind of an arm's adapter."""
    return all_kinds().get(arm.adapter.partition(":")[0]) or AdapterKind(name=arm.adapter)


@dataclass(frozen=True)
class LocatedAdapter:
    """An adapter to be opened, with its paths resolved, its kind, and how it is prepared."""

    adapter: Adapter
    kind: AdapterKind
    preparation: Preparation | None
    """None for an adapter that is ready."""


def locate_adapter(
    adapter: Adapter, context: AdapterContext, configured: Mapping[str, Adapter], typed_in: Path | None = None
) -> LocatedAdapter:
    """Return the adapter with its paths resolved and the session's seed among its parameters. Raises SpecError.

    `typed_in` is the folder of a command line that named it.
    """
    kind = kind_of(adapter)
    # A replay needs no checkpoint: the adapter is recognised by its settings.
    with contextlib.suppress(SpecError) if context.is_replay else contextlib.nullcontext():
        adapter = kind.locate(adapter, context, configured, typed_in)
    # A seed in the adapter's own table wins.
    if kind.is_seeded:
        adapter = replace(adapter, parameters={"seed": context.settings.seed, **adapter.parameters})
    return LocatedAdapter(adapter, kind, find_preparation(adapter, context))
