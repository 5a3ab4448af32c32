"""Checks of an adapter's options that several kinds share."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError, UnknownSetting, suggest


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
