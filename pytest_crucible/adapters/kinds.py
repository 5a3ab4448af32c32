"""The kinds of adapter: one row each, which declares everything that differs between kinds.

A row names functions as "module:function", so that the table imports none of them. Features add rows to the table
`adapter_kinds`.
Users add kinds of their own by the hook `pytest_crucible_backend`, which is called first and may replace a built-in kind.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.origin import Origin
from pytest_crucible.adapters.preparations import find_preparation
from pytest_crucible.adapters.uris import UriForm, read_rest, read_server, read_tinker
from pytest_crucible.features import load_rows
from pytest_crucible.records import Adapter, Arm, Sample

if TYPE_CHECKING:
    from datetime import datetime

    from pytest_crucible.adapters.context import AdapterContext
    from pytest_crucible.adapters.weights import Weights
    from pytest_crucible.backends import Backend
    from pytest_crucible.metrics import Metric


Reference = str | Callable[..., Any]
"""A function, or "module:function"."""


@dataclass(frozen=True, kw_only=True)
class AdapterKind:
    """One kind of adapter. All functions take the adapter and an AdapterContext, and may raise SpecError."""

    name: str
    """`backend` in the configuration."""
    open: Reference = ""
    """Returns the backend."""
    uri: UriForm | None = None
    """How a URI names an adapter of this kind; None for a kind without URIs."""
    locate: Reference = ""
    """Returns the adapter with paths resolved; takes the configured adapters and the folder that paths are relative to."""
    origin: Reference = ""
    """Returns the Origin: everything besides the settings that replies depend on."""
    weights: Reference = ""
    """Returns the Weights of an adapter with its paths resolved: the files that the registry copies, and their lineage."""
    expiry: Reference = ""
    """Returns when a service will delete the adapter's weights; None if it keeps them."""
    is_seeded: bool = False
    """The session's seed is one of the parameters."""
    is_offline: bool = False
    """Opening costs nothing and sends nothing, so replies are never cached."""
    sends_messages: bool = False
    """A text is sent as a message of the user."""
    is_free: bool = False
    """Computed on this machine: tokens cost nothing."""
    metrics: Reference = ""
    """Returns the metrics that are scored without being listed; takes the samples."""

    def open_backend(self, adapter: Adapter, context: AdapterContext) -> Backend | None:
        """Return the backend; None for a kind without an implementation."""
        # The hook comes first, so that a conftest.py can replace a built-in kind, in a test for instance.
        backend: Backend | None = context.open_user_backend(adapter)
        return backend if backend is not None or not self.open else _load(self.open)(adapter, context)

    def locate_files(
        self, adapter: Adapter, context: AdapterContext, configured: Mapping[str, Adapter], typed_in: Path | None
    ) -> Adapter:
        """Return the adapter with its paths resolved. `typed_in` is the folder of a command line that named it."""
        located: Adapter = _load(self.locate)(adapter, context, configured, typed_in) if self.locate else adapter
        return located

    def find_origin(self, adapter: Adapter, context: AdapterContext) -> Origin:
        """Return everything besides the settings that the adapter's replies depend on. No service is called."""
        preparation = find_preparation(adapter, context)
        if preparation is not None:
            return preparation.find_origin(adapter, context)
        origin: Origin = _load(self.origin)(adapter, context) if self.origin else Origin()
        return origin

    def find_weights(self, adapter: Adapter, context: AdapterContext) -> Weights:
        """Return the files that the adapter's replies come from, and their lineage."""
        from pytest_crucible.adapters.weights import Weights

        weights: Weights = _load(self.weights)(adapter, context) if self.weights else Weights()
        return weights

    def find_expiry(self, adapter: Adapter, context: AdapterContext) -> datetime | None:
        """Return when a service will delete the adapter's weights; None if they stay."""
        expiry: datetime | None = _load(self.expiry)(adapter, context) if self.expiry else None
        return expiry

    def read_uri(self, uri: str, adapter: str) -> Mapping[str, Any]:
        """Return the options that a URI stands for."""
        return self.uri.read(uri, adapter) if self.uri else {}

    def find_metrics(self, samples: Sequence[Sample]) -> tuple[Metric, ...]:
        """Return the metrics that are scored without being listed. Raises SpecError for samples that they cannot use."""
        metrics: tuple[Metric, ...] = _load(self.metrics)(samples) if self.metrics else ()
        return metrics


KINDS = (
    AdapterKind(
        name="recorded",
        open="pytest_crucible.adapters.recorded:open_recorded",
        uri=UriForm(("recorded",), read_rest("path")),
        locate="pytest_crucible.adapters.recorded:locate_answers",
        weights="pytest_crucible.adapters.recorded:find_weights",
        is_offline=True,
    ),
    AdapterKind(
        name="local",
        open="pytest_crucible.adapters.local:open_local",
        uri=UriForm(("local",), read_rest("checkpoint")),
        locate="pytest_crucible.adapters.checkpoints:resolve_checkpoint",
        origin="pytest_crucible.adapters.local:find_origin",
        weights="pytest_crucible.adapters.local:find_weights",
        is_seeded=True,
        is_free=True,
    ),
    AdapterKind(
        name="tinker",
        open="pytest_crucible.adapters.tinker:open_tinker",
        uri=UriForm(("tinker",), read_tinker),
        origin="pytest_crucible.adapters.tinker:find_origin",
        weights="pytest_crucible.adapters.tinker:find_weights",
        expiry="pytest_crucible.adapters.tinker:find_expiry",
        is_seeded=True,
    ),
    AdapterKind(
        name="openai",
        open="pytest_crucible.adapters.openai:open_server",
        uri=UriForm(("openai+http", "openai+https"), read_server),
        sends_messages=True,
    ),
    AdapterKind(name="scripted", open="pytest_crucible.adapters.scripted:open_scripted", is_offline=True),
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


def kind_of_uri(scheme: str) -> AdapterKind | None:
    """Return the kind whose URIs have this scheme; None for other schemes."""
    return next((kind for kind in all_kinds().values() if kind.uri and kind.uri.matches(scheme)), None)


def uri_schemes() -> dict[str, AdapterKind]:
    """Return every scheme that the configuration may use, and its kind."""
    return {scheme: kind for kind in all_kinds().values() if kind.uri for scheme in kind.uri.schemes}


def _load(reference: Reference) -> Callable[..., Any]:
    if not isinstance(reference, str):
        return reference
    module, _, function = reference.partition(":")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return loaded
