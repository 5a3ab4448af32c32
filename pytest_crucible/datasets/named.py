"""Samples of which nothing is known but their ids and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from pytest_crucible.records import Sample


class NamedSamples(Sequence[Sample]):
    """A sequence of samples without input, which returns equal samples on each access, not the same object.

    >>> NamedSamples(["a", "b"])[1].id
    'b'
    """

    __slots__ = ("groups", "ids")

    def __init__(self, ids: Sequence[str], groups: Sequence[str] = ()) -> None:
        """`groups` is empty where samples have none."""
        self.ids, self.groups = ids, groups

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Sample: ...

    @overload
    def __getitem__(self, at: slice) -> NamedSamples: ...

    def __getitem__(self, at: int | slice) -> Sample | NamedSamples:
        if isinstance(at, slice):
            return NamedSamples(self.ids[at], self.groups[at])
        return Sample(id=self.ids[at], input=None, group=self.groups[at] if self.groups else None)
