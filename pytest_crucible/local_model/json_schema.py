"""The texts that a JSON schema allows, as a grammar for constrained decoding.

Not all of them: properties come in the schema's order, strings are printable ASCII without escapes, and blanks are those of
`json.dumps`. Every text of the grammar is valid for the schema; a keyword that it cannot keep is refused.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import string
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any
from urllib.parse import unquote

from pytest_crucible.local_model.grammar import Node, Reference, characters, choice, literal, optional, repeat, sequence
from pytest_crucible.local_model.number_ranges import DIGITS, integer_node, number_node
from pytest_crucible.local_model.text_patterns import PRINTABLE, pattern_node
from pytest_crucible.records.errors import describe_json_type

# Keywords that say nothing about which texts are valid, or that hold for every text of the grammar.
_IGNORED = {
    *("title", "description", "default", "examples", "$schema", "$defs", "definitions", "$comment", "strict"),
    *("deprecated", "readOnly", "writeOnly", "discriminator"),
}
_FARTHEST = Decimal(10) ** (DIGITS + 1)
_LONGEST = 10**9
"""No reply is so long; a greater number would be too large for a float."""
_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_OF_TYPE = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "integer": _BOUNDS,
    "number": _BOUNDS,
    "boolean": set[str](),
    "null": set[str](),
}
_KEYWORDS = {"type", *set().union(*_OF_TYPE.values())}
# Each level has states of its own, whose tokens are found once: a model that nests for ever would never come to its end.
MAX_DEPTH = 5
_DATE = r"[12]\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ"
_HEX = "[0-9a-f]"
# Some texts of each format: days that each year has, times in UTC.
_FORMATS = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
    "uuid": f"^{_HEX}{{8}}-{_HEX}{{4}}-4{_HEX}{{3}}-[89ab]{_HEX}{{3}}-{_HEX}{{12}}$",
}


def object_node(depth: int = MAX_DEPTH) -> Node:
    """Return the grammar of JSON objects of any content, with at most `depth` objects and arrays in each other."""
    # By name: a node that holds all levels below it would be hashed with them at each byte.
    return _object_of(Reference(f"value {depth - 1}", _value_node))


@functools.cache
def _value_node(name: str) -> Node:
    depth = int(name.removeprefix("value "))
    scalars = (_STRING, *_SIMPLE.values())
    inner = Reference(f"value {depth - 1}", _value_node)
    return choice(
        (*scalars, _object_of(inner), sequence(literal("["), optional(_list_of(inner)), literal("]")))
        if depth
        else scalars
    )


def json_node(schema: Any) -> Node:
    """Return the grammar of a schema's texts. Raises ValueError for a keyword that is not supported, with its place."""
    if not isinstance(schema, Mapping):
        raise ValueError(f"the schema must be an object, not {describe_json_type(schema)}")
    try:
        return _Compiler(schema).node(schema, "#")
    except RecursionError:
        raise ValueError("the schema nests too deeply: write its inner parts as $defs, or leave them out") from None


class _Compiler:
    """Compiles one schema. Objects, arrays and what a `$ref` names become nodes by name, which are small and hashed fast."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes: dict[str, Node] = {}

    def node(self, schema: Any, place: str) -> Node:
        if not isinstance(schema, Mapping) and schema is not True:
            raise ValueError(f"{place} must be an object, not {schema!r}")
        if schema is True or set(schema) <= _IGNORED:
            return choice(self._of_type(kind, {}, place) for kind in ("string", "integer", "boolean", "null"))
        if "$ref" in schema:
            _check(schema, {"$ref"}, place)
            return self._refer(schema["$ref"])
        if "const" in schema or "enum" in schema:
            _check(schema, {"const", "enum", "type"}, place)
            return choice(literal(json.dumps(value, allow_nan=False)) for value in _read_values(schema, place))
        for name in ("anyOf", "oneOf"):
            if name in schema:
                _check(schema, {name}, place)
                return self._any_of(name, schema[name], f"{place}/{name}")
        _check(schema, _KEYWORDS, place)
        kinds = _read_kinds(schema, place)
        _check(schema, {"type", *set().union(*(_OF_TYPE[kind] for kind in kinds))}, place)
        return choice(self._of_type(kind, schema, place) for kind in kinds)

    def _any_of(self, name: str, parts: Any, place: str) -> Node:
        """Return the grammar of one of several schemas. With oneOf, no value may be valid for two of them."""
        if not isinstance(parts, list) or not parts:
            raise ValueError(f"{place} is {parts!r}; expected a list of schemas")
        nodes = [self.node(part, f"{place}/{number}") for number, part in enumerate(parts)]
        pairs = itertools.combinations(enumerate(parts), 2) if name == "oneOf" else ()
        for (number, part), (other, other_part) in pairs:
            if not exclude_each_other(part, other_part, self._follow):
                raise ValueError(f"a value may be valid for {place}/{number} and {place}/{other}: write anyOf instead")
        return choice(nodes)

    def _of_type(self, kind: str, schema: Schema, place: str) -> Node:
        if kind == "object":
            return self._name(self._object(schema, place))
        if kind == "array":
            return self._name(self._array(schema, place))
        if kind == "string":
            return self._name(_string_of(schema, place))
        if kind in ("integer", "number"):
            return self._name(_number_of(kind, schema, place))
        return _SIMPLE[kind]

    def _object(self, schema: Schema, place: str) -> Node:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, Mapping):
            raise ValueError(f"{place}/properties must be an object, not {properties!r}")
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            raise ValueError(f"{place}/required is {required!r}; expected a list of names")
        if unknown := [name for name in required if name not in properties]:
            raise ValueError(f"{place}/required names {unknown[0]!r}, which is not in properties: add it there")
        # From the last member to the first; those that follow another one begin with a comma.
        first = later = sequence()
        for name, part in reversed(list(properties.items())):
            member = sequence(literal(f"{json.dumps(name)}: "), self.node(part, f"{place}/properties/{name}"), later)
            after = sequence(literal(", "), member)
            if name not in required:
                member, after = choice((member, first)), choice((after, later))
            first, later = self._name(member), self._name(after)
        return sequence(literal("{"), first, literal("}"))

    def _array(self, schema: Schema, place: str) -> Node:
        item = self.node(schema.get("items", {}), f"{place}/items")
        least, most = _read_bounds(schema, "minItems", "maxItems", place)
        if most == 0:
            return literal("[]")
        others = repeat(sequence(literal(", "), item), max(0, least - 1), None if most is None else most - 1)
        items = sequence(item, others)
        return sequence(literal("["), items if least else optional(items), literal("]"))

    def _name(self, node: Node) -> Node:
        name = str(len(self._nodes))
        self._nodes[name] = node
        return Reference(name, self._nodes.__getitem__)

    def _refer(self, reference: Any) -> Node:
        part = self._find_part(reference)
        if reference not in self._nodes:
            # Known by its name before it is compiled, since it may contain itself.
            self._nodes[reference] = sequence()
            self._nodes[reference] = self.node(part, reference)
        return Reference(reference, self._nodes.__getitem__)

    def _follow(self, schema: Any) -> Schema:
        """Return the schema that a `$ref` names; an empty one for `true`, and for a path that leads back to itself."""
        followed = set[str]()
        while isinstance(schema, Mapping) and "$ref" in schema and schema["$ref"] not in followed:
            followed.add(schema["$ref"])
            schema = self._find_part(schema["$ref"])
        return schema if isinstance(schema, Mapping) and "$ref" not in schema else {}

    def _find_part(self, reference: Any) -> Any:
        """Return the part of the schema that a JSON pointer names (RFC 6901)."""
        problem = ValueError(f"$ref {reference!r} names nothing in this schema; expected a path such as #/$defs/NAME")
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise problem
        part: Any = self._root
        for key in unquote(reference).split("/")[1:]:
            name = key.replace("~1", "/").replace("~0", "~")
            if isinstance(part, Mapping) and name in part:
                part = part[name]
            elif isinstance(part, list) and name.isdecimal() and int(name) < len(part):
                part = part[int(name)]
            else:
                raise problem
        return part


def _check(schema: Schema, keywords: set[str], place: str) -> None:
    # Within the schema, an $id would change what a $ref means.
    of_root = {"$id"} if place == "#" else set[str]()
    if unknown := sorted(set(schema) - keywords - _IGNORED - of_root):
        raise ValueError(f"{place} has {unknown[0]!r}, which this model's decoding cannot keep: leave it out")


def _read_kinds(schema: Schema, place: str) -> Sequence[str]:
    kinds = schema.get("type", "object" if "properties" in schema else None)
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list) or not kinds or not all(kind in KINDS for kind in kinds):
        raise ValueError(f"{place}/type is {kinds!r}; expected one of {', '.join(KINDS)}")
    return kinds


def _read_values(schema: Schema, place: str) -> list[Any]:
    """Return the values of `const` or `enum` that keep the schema's other keywords."""
    values = schema.get("enum", [schema.get("const")])
    if not isinstance(values, list) or not values:
        raise ValueError(f"{place}/enum must be a list with a value")
    kinds = with_integers(_read_kinds(schema, place) if "type" in schema else KINDS)
    valid = [
        value for value in values if kind_of(value) in kinds and ("const" not in schema or schema["const"] == value)
    ]
    if not valid:
        raise ValueError(f"{place} allows no value: its const, enum and type exclude each other")
    return valid


def _read_bounds(schema: Schema, least_name: str, most_name: str, place: str) -> tuple[int, int | None]:
    """Return the least and the most length; None without an end."""
    for name in (least_name, most_name):
        if kind_of(value := schema.get(name, 0)) != "integer" or value < 0:
            raise ValueError(f"{place}/{name} is {value!r}; expected a whole number from 0")
    least, most = min(int(schema.get(least_name, 0)), _LONGEST), schema.get(most_name)
    if most is not None and most < least:
        raise ValueError(f"{place} allows no value: {least_name} is {least} and {most_name} {most}")
    return least, None if most is None else int(most)


def _string_of(schema: Schema, place: str) -> Node:
    lengths, forms = {"minLength", "maxLength"} & set(schema), {"pattern", "format"} & set(schema)
    if not forms:
        return _string(*_read_bounds(schema, "minLength", "maxLength", place))
    if lengths or len(forms) > 1:
        together = ", ".join(sorted(lengths | forms))
        raise ValueError(f"{place} has {together} together, which this model's decoding cannot keep: leave one of them")
    (name,) = forms
    pattern = _FORMATS.get(schema[name]) if name == "format" and isinstance(schema[name], str) else schema[name]
    if not isinstance(pattern, str):
        keeps = f", this model's decoding keeps {', '.join(_FORMATS)}" if name == "format" else "; expected a text"
        raise ValueError(f"{place}/{name} is {schema[name]!r}{keeps}")
    try:
        return sequence(literal('"'), pattern_node(pattern), literal('"'))
    except ValueError as error:
        raise ValueError(f"{place}/{name}: {error}") from None


def _number_of(kind: str, schema: Schema, place: str) -> Node:
    bounds = {name: _read_bound(schema, name, place) for name in _BOUNDS & set(schema)}
    if not bounds:
        return _SIMPLE[kind]
    # The next number that the grammar has.
    step = Decimal(1) if kind == "integer" else Decimal(10) ** -DIGITS
    lows, highs = ([bounds[name]] if name in bounds else [] for name in ("minimum", "maximum"))
    if "exclusiveMinimum" in bounds:
        lows.append(bounds["exclusiveMinimum"].quantize(step, ROUND_FLOOR) + step)
    if "exclusiveMaximum" in bounds:
        highs.append(bounds["exclusiveMaximum"].quantize(step, ROUND_CEILING) - step)
    try:
        return (integer_node if kind == "integer" else number_node)(max(lows, default=None), min(highs, default=None))
    except ValueError as error:
        raise ValueError(f"{place} {error}") from None


def _read_bound(schema: Schema, name: str, place: str) -> Decimal:
    value = schema[name]
    # A whole number may be too large for a float, and is finite.
    if kind_of(value) not in ("integer", "number") or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{place}/{name} is {value!r}; expected a number")
    # No number of the grammar is beyond these, which numbers of any size can be compared with.
    return max(-_FARTHEST, min(_FARTHEST, Decimal(str(value))))


def _string(least: int = 0, most: int | None = None) -> Node:
    return sequence(literal('"'), repeat(characters(PRINTABLE), least, most), literal('"'))


def _object_of(value: Node) -> Node:
    member = sequence(_STRING, literal(": "), value)
    return sequence(literal("{"), optional(_list_of(member)), literal("}"))


def _list_of(part: Node) -> Node:
    return sequence(part, repeat(sequence(literal(", "), part)))


_STRING = _string()
_NUMBER = sequence(
    optional(literal("-")),
    choice((literal("0"), sequence(characters("123456789"), repeat(characters(string.digits), 0, DIGITS - 1)))),
)
_SIMPLE = {
    "integer": _NUMBER,
    "number": sequence(_NUMBER, optional(sequence(literal("."), repeat(characters(string.digits), 1, DIGITS)))),
    "boolean": choice((literal("true"), literal("false"))),
    "null": literal("null"),
}


KINDS = tuple(_OF_TYPE)
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
