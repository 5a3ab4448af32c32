"""The texts that a JSON schema allows, as a grammar for constrained decoding.

Not all of them: properties come in the schema's order, strings are printable ASCII without escapes, and blanks are those of
`json.dumps`. Every text of the grammar is valid for the schema; a keyword that it cannot keep is refused.
"""

from __future__ import annotations

import functools
import json
import string
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.local_model.grammar import (
    Node,
    Reference,
    characters,
    choice,
    literal,
    optional,
    repeat,
    sequence,
)
from pytest_crucible.records.type_names import describe_json_type

# Keywords that say nothing about which texts are valid, or that hold for every text of the grammar.
_IGNORED = {
    "title",
    "description",
    "default",
    "examples",
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "$comment",
    "strict",
}
_OF_TYPE = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength"},
    "integer": set[str](),
    "number": set[str](),
    "boolean": set[str](),
    "null": set[str](),
}
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in '"\\')
# Each level has states of its own, whose tokens are found once: a model that nests for ever would never come to its end.
MAX_DEPTH = 5
# Numbers of more digits would lose some in most programs that read them.
_DIGITS = 9


def object_node(depth: int = MAX_DEPTH) -> Node:
    """Return the grammar of JSON objects of any content, with at most `depth` objects and arrays in each other."""
    # By name: a node that holds all levels below it would be hashed with them at each byte.
    return _object_of(Reference(f"value {depth - 1}", _value_node))


@functools.cache
def _value_node(name: str) -> Node:
    depth = int(name.removeprefix("value "))
    scalars = (_STRING, *_SIMPLE.values())
    inner = Reference(f"value {depth - 1}", _value_node)
    return choice((*scalars, _object_of(inner), _array_of(inner)) if depth else scalars)


def json_node(schema: Any) -> Node:
    """Return the grammar of a schema's texts. Raises ValueError for a keyword that is not supported, with its place."""
    if not isinstance(schema, Mapping):
        raise ValueError(f"the schema must be an object, not {describe_json_type(schema)}")
    return _Compiler(schema).node(schema, "#")


class _Compiler:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def node(self, schema: Any, place: str) -> Node:
        """Return the grammar of a part of the schema."""
        if schema is True or schema == {}:
            return choice(self._of_type(kind, {}, place) for kind in ("string", "integer", "boolean", "null"))
        if not isinstance(schema, Mapping):
            raise ValueError(f"{place} must be an object, not {schema!r}")
        if "$ref" in schema:
            _check(schema, {"$ref"}, place)
            return Reference(str(schema["$ref"]), self._resolve)
        if "const" in schema or "enum" in schema:
            _check(schema, {"const", "enum", "type"}, place)
            values = [schema["const"]] if "const" in schema else schema["enum"]
            if not isinstance(values, Sequence) or isinstance(values, str) or not values:
                raise ValueError(f"{place}/enum must be a list with a value")
            return choice(literal(json.dumps(value)) for value in values)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                _check(schema, {name}, place)
                return choice(self.node(part, f"{place}/{name}/{number}") for number, part in enumerate(schema[name]))
        kinds = schema.get("type", "object" if "properties" in schema else None)
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not isinstance(kinds, Sequence) or not kinds or not set(kinds) <= set(_OF_TYPE):
            raise ValueError(f"{place}/type is {kinds!r}; expected one of {', '.join(_OF_TYPE)}")
        _check(schema, {"type", *set().union(*(_OF_TYPE[kind] for kind in kinds))}, place)
        return choice(self._of_type(kind, schema, place) for kind in kinds)

    def _of_type(self, kind: str, schema: Mapping[str, Any], place: str) -> Node:
        if kind == "object":
            return self._object(schema, place)
        if kind == "array":
            return self._array(schema, place)
        if kind == "string":
            return _string(schema.get("minLength", 0), schema.get("maxLength"))
        return _SIMPLE[kind]

    def _object(self, schema: Mapping[str, Any], place: str) -> Node:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if unknown := [name for name in required if name not in properties]:
            raise ValueError(f"{place}/required names {unknown[0]!r}, which is not in properties")
        pairs = [
            (
                sequence(literal(f"{json.dumps(name)}: "), self.node(part, f"{place}/properties/{name}")),
                name in required,
            )
            for name, part in properties.items()
        ]
        return sequence(literal("{"), _members(pairs, is_first=True), literal("}"))

    def _array(self, schema: Mapping[str, Any], place: str) -> Node:
        item = self.node(schema.get("items", {}), f"{place}/items")
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most == 0:
            return literal("[]")
        others = repeat(sequence(literal(", "), item), max(0, least - 1), None if most is None else most - 1)
        items = sequence(item, others)
        return sequence(literal("["), items if least else optional(items), literal("]"))

    @functools.lru_cache(maxsize=256)  # noqa: B019 - lives as long as one schema
    def _resolve(self, reference: str) -> Node:
        place: Any = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            place = place.get(part) if isinstance(place, Mapping) and part else place
        if not reference.startswith("#") or place is None:
            raise ValueError(f"$ref {reference!r} names nothing in this schema")
        return self.node(place, reference)


def _members(pairs: Sequence[tuple[Node, bool]], *, is_first: bool) -> Node:
    """Return the grammar of members in order, separated by commas; optional members may be left out."""
    if not pairs:
        return sequence()
    (member, is_required), *others = pairs
    with_comma = member if is_first else sequence(literal(", "), member)
    there = sequence(with_comma, _members(others, is_first=False))
    return there if is_required else choice((there, _members(others, is_first=is_first)))


def _check(schema: Mapping[str, Any], known: set[str], place: str) -> None:
    if unknown := sorted(set(schema) - known - _IGNORED):
        raise ValueError(f"{place} has {unknown[0]!r}, which this model's decoding cannot keep: leave it out")


def _string(least: int = 0, most: int | None = None) -> Node:
    return sequence(literal('"'), repeat(characters(_PRINTABLE), least, most), literal('"'))


def _object_of(value: Node) -> Node:
    member = sequence(_STRING, literal(": "), value)
    return sequence(literal("{"), optional(_list_of(member)), literal("}"))


def _array_of(value: Node) -> Node:
    return sequence(literal("["), optional(_list_of(value)), literal("]"))


def _list_of(part: Node) -> Node:
    return sequence(part, repeat(sequence(literal(", "), part)))


_STRING = _string()
_NUMBER = sequence(
    optional(literal("-")),
    choice((literal("0"), sequence(characters("123456789"), repeat(characters(string.digits), 0, _DIGITS - 1)))),
)
_SIMPLE = {
    "integer": _NUMBER,
    "number": sequence(_NUMBER, optional(sequence(literal("."), repeat(characters(string.digits), 1, _DIGITS)))),
    "boolean": choice((literal("true"), literal("false"))),
    "null": literal("null"),
}
