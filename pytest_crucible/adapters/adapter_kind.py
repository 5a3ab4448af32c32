"""The declaration of a kind of adapter: functions that open it, find its files and read its URIs; and checks of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Lineage, Sample
from pytest_crucible.records.errors import SpecError, UnknownSetting, suggest

if TYPE_CHECKING:
    from datetime import datetime

    from pytest_crucible.adapters.context import AdapterContext
    from pytest_crucible.backends import Backend
    from pytest_crucible.metrics import Metric

ReadUri = Callable[[str, str], Mapping[str, Any]]
"""Returns the options that a URI stands for; takes the URI and the adapter's name."""


@dataclass(frozen=True)
class UriForm:
    """The URIs of one kind of adapter."""

    schemes: tuple[str, ...]
    read: ReadUri

    def matches(self, scheme: str) -> bool:
        """Return whether the form has this scheme; openai+ftp counts as one, although the server's URL is then refused."""
        return _family(scheme) in map(_family, self.schemes)


def _family(scheme: str) -> str:
    name, plus, _ = scheme.partition("+")
    return name + plus


def read_rest(option: str) -> ReadUri:
    """Return a reader that sets an option to the part after the scheme.

    >>> read_rest("path")("recorded:answers/v2.jsonl", "v2")
    {'path': 'answers/v2.jsonl'}
    """
    return lambda uri, adapter: {option: uri.partition(":")[2]}


@dataclass(frozen=True)
class Origin:
    """The facts and files that an adapter's replies depend on, as far as they are known without opening it."""

    facts: tuple[str | None, ...] = ()
    """The base, the recipe, the service."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The adapter's files that are on this machine, with their SHA-256."""


@dataclass(frozen=True)
class Weights:
    """The files and folders on this machine from which an adapter replies, which the registry keeps."""

    files: Mapping[str, Path] = field(default_factory=dict)
    """Option of the adapter -> the file that it names."""
    lineage: Lineage | None = None


@dataclass(frozen=True, kw_only=True)
class AdapterKind:
    """One kind of adapter. Its functions import what they need when they are called, and may raise SpecError."""

    name: str
    """`backend` in the configuration."""
    open: Callable[[Adapter, AdapterContext], Backend | None] = lambda adapter, context: None
    """Returns the backend; None for a kind that only a user's hook can open."""
    uri: UriForm | None = None
    """How a URI names an adapter of this kind; None for a kind without URIs."""
    locate: Callable[[Adapter, AdapterContext, Mapping[str, Adapter], Path | None], Adapter] = (
        lambda adapter, context, configured, typed_in: adapter
    )
    """Returns the adapter with paths resolved; takes the configured adapters, and the folder of a command line that named it."""
    find_origin: Callable[[Adapter, AdapterContext], Origin] = lambda adapter, context: Origin()
    """Returns everything besides the settings that replies depend on. No service is called."""
    find_weights: Callable[[Adapter, AdapterContext], Weights] = lambda adapter, context: Weights()
    """Returns the files that the registry copies, and their lineage, of an adapter with its paths resolved."""
    find_expiry: Callable[[Adapter, AdapterContext], datetime | None] | None = None
    """Returns when a service will delete the adapter's weights, or None; None for a kind whose weights stay."""
    find_steps: Callable[[Adapter, AdapterContext], int | None] = lambda adapter, context: None
    """Returns the optimiser steps that the adapter's weights hold; None where they are not known."""
    find_metrics: Callable[[Sequence[Sample]], tuple[Metric, ...]] = lambda samples: ()
    """Returns the metrics that are scored without being listed."""
    is_seeded: bool = False
    """The session's seed is one of the parameters."""
    is_offline: bool = False
    """Opening costs nothing and sends nothing, so replies are never cached."""
    sends_messages: bool = False
    """A text is sent as a message of the user."""
    is_free: bool = False
    """Computed on this machine: tokens cost nothing."""


def check_options(adapter: Adapter, names: Sequence[str]) -> None:
    """Raise UnknownSetting for an option that this kind of adapter does not have."""
    unknown = sorted(set(adapter.options) - set(names))
    if unknown:
        hint = suggest(unknown[0], names, always=f"it takes {', '.join(names)}, and parameters")
        rest = f", which backend {adapter.backend!r} does not know: {hint}"
        raise UnknownSetting(adapter.name, unknown[0], rest)


def required_text(adapter: Adapter, name: str) -> str:
    """Return an option that has to be a text. Raises SpecError."""
    value = adapter.options.get(name)
    if not isinstance(value, str):
        raise SpecError(f'adapter {adapter.name!r} has backend {adapter.backend!r} but no {name!r}: add {name} = "..."')
    return value


def option_path(adapter: Adapter, name: str, root: Path) -> Path | None:
    """Return the path that an option names, relative to the configuration; None without the option. Raises SpecError."""
    return root / Path(required_text(adapter, name)).expanduser() if name in adapter.options else None


def shorten_path(path: Path, folder: Path) -> str:
    """Return the path, relative to the folder if it is below it."""
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)
