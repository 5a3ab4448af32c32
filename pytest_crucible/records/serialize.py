"""Records to plain JSON values and back, for the run store and for reports that cross xdist; and how deep values may be nested."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeVar, cast

from pytest_crucible.records.errors import describe_type

Record = TypeVar("Record")
# Key in a field's metadata: the name under which earlier versions stored the field.
FORMER_NAME = "former_name"
# Key in a field's metadata: the field is a mapping that is stored flat, beside the other fields, and takes unknown names.
FLAT = "flat"
_AS_THEY_ARE = frozenset({str, int, bool, types.NoneType})


def to_plain(value: Any) -> Any:
    """Return a value as plain JSON: dataclasses become dicts, tuples lists, infinities strings. Raises TypeError."""
    if type(value) in _AS_THEY_ARE:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        flat = _flat_field(type(value))
        plain = {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return plain if flat is None else {**plain, **plain.pop(flat)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, int | float | str):
        return value
    raise TypeError(f"{value!r} of type {type(value).__name__} has no plain form")


def pick(record: object, names: str) -> dict[str, Any]:
    """Return some fields of a record by name, in this order: `pick(arm, "name role")`."""
    return {name: getattr(record, name) for name in names.split()}


def plain_or_repr(value: Any) -> Any:
    """Return a value's plain form, or its repr where JSON has no form for it."""
    try:
        return to_plain(value)
    except TypeError:
        return repr(value)


def canonical(value: Any) -> str:
    """Return one text for all equal values: JSON with sorted keys, in which records and mappings are alike.

    Raises TypeError for a value that JSON has no form for.

    >>> canonical({"b": (1, 2), "a": None}) == canonical({"a": None, "b": [1, 2]})
    True
    """
    try:
        return _CANONICAL.encode(value)
    except (ValueError, RecursionError) as error:
        # of what contains itself
        raise TypeError(f"{describe_type(value)} has no plain form: {error}") from None


def _parts(value: Any) -> dict[str, Any]:
    """Return a record or mapping as a dict, one level deep, for the JSON encoder."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} of type {type(value).__name__} has no plain form")


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_parts)


def from_plain(kind: type[Record], plain: Any) -> Record:
    """Build a record of the class from the result of `to_plain`."""
    build: Builder = _builder(cast(Hashable, kind))
    return cast(Record, build(plain))


def build_value(kind: Any, plain: Any) -> Any:
    """Build a value of any type of records, such as `tuple[Stage, ...]`, from its plain form."""
    return _builder(kind)(plain)


Builder = Callable[[Any], Any]


# Resolving type hints costs far more than building a record, and a large run has a million records of few classes.
@cache
def _builder(kind: Any) -> Builder:
    """Return the function that builds a value of a type from its plain form."""
    if dataclasses.is_dataclass(kind):
        return partial(_record, kind)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(kind) if member is not type(None)]
        return _optional(_of_several(members) if len(members) > 1 else _builder(members[0]))
    if origin is tuple:
        build = _builder(typing.get_args(kind)[0])
        return lambda plain: tuple(map(build, plain))
    if origin in (Sequence, list):
        build = _builder(typing.get_args(kind)[0])
        return lambda plain: list(map(build, plain))
    if origin is Mapping:
        of_value = _builder(typing.get_args(kind)[1])
        return lambda plain: {key: of_value(item) for key, item in plain.items()}
    # A NamedTuple, such as a unit: plain JSON has it as a list.
    if isinstance(kind, type) and issubclass(kind, tuple):
        return lambda plain: kind(*plain)
    return _number if kind is float else _as_it_is


def _record(kind: Any, plain: Any) -> Any:
    builders, renamed = _field_builders(kind), _renamed_fields(kind)
    named = {renamed.get(name, name): item for name, item in plain.items()}
    values = {name: builders[name](item) for name, item in named.items() if name in builders}
    flat = _flat_field(kind)
    if flat is not None:
        values[flat] = {name: item for name, item in named.items() if name not in builders}
    return kind(**values)


@cache
def _flat_field(kind: Any) -> str | None:
    """Return the field of a record that is stored flat; None for a record without one."""
    return next((field.name for field in dataclasses.fields(kind) if FLAT in field.metadata), None)


@cache
def _renamed_fields(kind: Any) -> dict[str, str]:
    """Return former name -> name, of the fields that earlier versions stored under another name."""
    fields = dataclasses.fields(kind)
    return {field.metadata[FORMER_NAME]: field.name for field in fields if FORMER_NAME in field.metadata}


def _optional(build: Builder) -> Builder:
    return build if build is _as_it_is else lambda plain: None if plain is None else build(plain)


def _number(plain: Any) -> Any:
    """Return a float: plain JSON has infinities as strings, and may have a whole number."""
    return float(plain) if isinstance(plain, str | int) else plain


def _as_it_is(plain: Any) -> Any:
    return plain


def _of_several(members: list[Any]) -> Builder:
    """Return the builder of a union. Records are distinguished by their field names; scalars stay as they are."""
    if not all(map(dataclasses.is_dataclass, members)):
        return _as_it_is
    by_names = {frozenset(field.name for field in dataclasses.fields(member)): _builder(member) for member in members}
    return lambda plain: by_names[frozenset(plain)](plain)


@cache
def _field_builders(kind: Any) -> dict[str, Builder]:
    """Return the builders of a record's fields, on first use: a record may contain others of its own class."""
    return {name: _builder(of) for name, of in typing.get_type_hints(kind).items()}


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in plain data, names of fields included.

    >>> list(texts_in({"a": ["b", 1]}))
    ['a', 'b']
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name)
            yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)


Text = TypeVar("Text", str, bytes)
# Python's limit is 1,000 frames, of which pytest and a coroutine take 150 and a level of a value up to three.
MOST_DEPTH = 100


class TooDeep(ValueError):
    """A value of the user's is nested too deep."""

    def __init__(self) -> None:
        super().__init__(f"is nested more than {MOST_DEPTH} levels deep")


def check_depth(value: Any) -> None:
    """Raise TooDeep for lists and mappings within each other beyond the limit, or that contain themselves.

    >>> check_depth({"a": [1, {"b": 2}]})
    """
    # Most rows of a dataset are flat.
    if type(value) is dict and _FLAT.issuperset(map(type, value.values())):
        return
    # By identity, because of what contains itself twice there would be twice as many on each level.
    level = _containers([value])
    for _ in range(MOST_DEPTH):
        if not level:
            return
        level = _containers(
            child for each in level.values() for child in (each.values() if isinstance(each, Mapping) else each)
        )
    if level:
        raise TooDeep


def parse(read: Callable[[Text], Any], text: Text) -> Any:
    """Return what a parser reads of a text. Raises TooDeep, also where the parser itself cannot go on, and the parser's errors."""
    try:
        value = read(text)
    except RecursionError:
        raise TooDeep from None
    # Fewer brackets than levels cannot nest too deep: counting them is a third of the time of looking at every value.
    if not isinstance(text, str) or text.count("[") + text.count("{") > MOST_DEPTH:
        check_depth(value)
    return value


_FLAT = _AS_THEY_ARE | {float}


def _containers(values: Any) -> dict[int, Any]:
    # Most values are flat, and looking for an abstract class takes longer than everything else that is done for a row.
    others = [value for value in values if type(value) not in _FLAT]
    return {id(value): value for value in others if isinstance(value, dict | list | tuple | Mapping)}
