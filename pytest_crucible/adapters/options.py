"""Checks of an adapter's options that several kinds share."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError


class UnknownOption(SpecError):
    """An option that this kind of adapter does not have."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


def check_options(adapter: Adapter, names: Sequence[str]) -> None:
    """Raise UnknownOption for an option that this kind of adapter does not have."""
    unknown = sorted(set(adapter.options) - set(names))
    if unknown:
        raise UnknownOption(
            unknown[0],
            f"adapter {adapter.name!r} has {unknown[0]!r}, which backend {adapter.backend!r} does not know: "
            f"it takes {', '.join(names)}, and parameters",
        )


def required_text(adapter: Adapter, name: str) -> str:
    """Return an option that has to be a text. Raises SpecError."""
    value = adapter.options.get(name)
    if not isinstance(value, str):
        raise SpecError(f'adapter {adapter.name!r} has backend {adapter.backend!r} but no {name!r}: add {name} = "..."')
    return value
