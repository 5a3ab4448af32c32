"""The error for a key of an adapter's table that its kind, or its recipe, does not have."""

from __future__ import annotations

from pytest_crucible.records.errors import SpecError


class UnknownSetting(SpecError):
    """An unknown key of an adapter, such as `lora.rnak`."""

    def __init__(self, adapter: str, key: str, rest: str) -> None:
        """`rest` is the end of the sentence: the owner of the settings, and what to write."""
        super().__init__(f"adapter {adapter!r} has {key!r}{rest}")
        self.key, self.rest = key, rest
