"""The types of JSON values that a schema allows, and whether two schemas exclude each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

KINDS = ("object", "array", "string", "integer", "number", "boolean", "null")
Schema = Mapping[str, Any]


def kind_of(value: Any) -> str:
    """Return the type of a JSON value; a number without a fraction is an integer.

    >>> kind_of(True), kind_of(2.0), kind_of(2.5)
    ('boolean', 'integer', 'number')
    """
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    types = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return types.get(type(value), "null")


def with_integers(kinds: Sequence[str]) -> set[str]:
    """Return types as a set in which an integer is a number, too."""
    return {*kinds, *(["integer"] if "number" in kinds else [])}


def exclude_each_other(first: Schema, second: Schema, follow: Callable[[Schema], Schema]) -> bool:
    """Return whether no value is valid for both schemas, as far as their types, values and properties show.

    `follow` returns the schema that a `$ref` names. False also where it is not known.

    >>> exclude_each_other({"type": "integer"}, {"type": "number"}, dict)
    False
    >>> exclude_each_other({"enum": ["cat"]}, {"const": "dog"}, dict)
    True
    """
    first, second = follow(first), follow(second)
    values, others = _values(first), _values(second)
    if values is not None and others is not None:
        return not any(value == other for value in values for other in others)
    kinds, other_kinds = _kinds(first), _kinds(second)
    if kinds and other_kinds and not kinds & other_kinds:
        return True
    if kinds != {"object"} or other_kinds != {"object"}:
        return False
    # Objects that differ in a property that both must have, as those of a tagged union do.
    shared = set(first.get("required", ())) & set(second.get("required", ()))
    return any(exclude_each_other(first["properties"][name], second["properties"][name], follow) for name in shared)


def _values(schema: Schema) -> Sequence[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values: Sequence[Any] | None = schema.get("enum")
    return values


def _kinds(schema: Schema) -> set[str]:
    """Return the types of a schema's values; empty if they are not known."""
    if (values := _values(schema)) is not None:
        return {kind_of(value) for value in values}
    kinds = schema.get("type", "object" if "properties" in schema else ())
    return with_integers([kinds] if isinstance(kinds, str) else kinds)
