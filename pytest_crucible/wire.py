"""Records to plain JSON values and back, for the run store and for reports that cross xdist."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

Record = TypeVar("Record")


def to_plain(value: Any) -> Any:
    """Dataclasses become dicts, tuples lists, infinities strings. Raises TypeError for what JSON cannot say."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{value!r} of type {type(value).__name__} has no plain form")


def from_plain(kind: type[Record], plain: Any) -> Record:
    """Build a record of that class from what `to_plain` made of it."""
    return cast(Record, _build(kind, plain))


def _build(kind: Any, plain: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        types_of = _field_types(cast(Hashable, kind))
        return kind(**{name: _build(types_of[name], item) for name, item in plain.items() if name in types_of})  # type: ignore[operator]
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return None if plain is None else _build(_first(kind), plain)
    if origin is tuple:
        item_kind = typing.get_args(kind)[0]
        return tuple(_build(item_kind, item) for item in plain)
    if origin is Mapping:
        item_kind = typing.get_args(kind)[1]
        return {key: _build(item_kind, item) for key, item in plain.items()}
    if kind is float and isinstance(plain, str | int):
        return float(plain)
    return plain


def _first(union: Any) -> Any:
    """The one member of an optional type; Any for a union of scalars, which needs no building."""
    members = [member for member in typing.get_args(union) if member is not type(None)]
    return members[0] if len(members) == 1 else Any


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)
