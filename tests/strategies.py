"""Hypothesis strategies that several tests share: records from their own annotations, and samples that make a dataset."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from pytest_crucible import records
from pytest_crucible.records import Sample

words = st.text(max_size=8)
names = st.text(min_size=1, max_size=8).filter(str.strip)
names = st.from_regex(r"[A-Za-z_][\w.\-]{0,10}", fullmatch=True)
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | finite | words
plain_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2), max_leaves=4
)


def is_given(value: Any) -> bool:
    """Return whether a value can be an input: a null is a missing one."""
    return value is not None


COLUMNS = {
    records.ArmOutcomes,
    records.ArmEvents,
    records.Dataset,
    records.ScoreColumns,
    records.ExportTable,
}
"""Records that never leave the process that made them."""
RECORDS = sorted(
    (
        kind
        # Names of `records` resolve on first use, so its own dict does not hold them.
        for kind in map(records.__getattr__, records.__all__)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind not in COLUMNS
    ),
    key=lambda kind: kind.__name__,
)


@cache
def record(kind: type) -> st.SearchStrategy[Any]:
    """Records of that class, every field drawn from what its annotation allows."""
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{field.name: _of(hints[field.name]) for field in dataclasses.fields(kind)})


def datasets(*, max_size: int = 30) -> st.SearchStrategy[list[Sample]]:
    """Samples with unique ids."""
    ids = st.lists(names, min_size=1, max_size=max_size, unique=True)
    return ids.map(lambda many: [Sample(id=entry, input=entry) for entry in many])


def _of(hint: Any) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return plain_values
    if hint is records.Unit:
        return st.builds(records.Unit, *(st.integers(0, 99) for _ in records.Unit._fields))
    if dataclasses.is_dataclass(hint):
        return st.deferred(lambda: record(typing.cast(type, hint)))  # a reply may hold replies
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin in (typing.Union, types.UnionType):
        return _any_of(arguments)
    if origin is tuple:
        return st.lists(_of(arguments[0]), max_size=2).map(tuple)
    if origin in (Mapping, dict):
        return st.dictionaries(words, _of(arguments[1]), max_size=2)
    if origin in (Sequence, list):
        return st.lists(_of(arguments[0]), max_size=3)
    return _SCALARS[hint]


def _any_of(members: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    """An optional number may be infinite; a score, which may be a bool or a str as well, is finite. JSON has no functions."""
    members = tuple(member for member in members if typing.get_origin(member) is not Callable)
    alone = len([member for member in members if member is not type(None)]) == 1
    return st.one_of([finite if member is float and not alone else _of(member) for member in members])


_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False),
    str: words,
    type(None): st.none(),
}
