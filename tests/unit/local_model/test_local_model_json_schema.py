"""Constrained decoding: every reply is in the language, whatever the model would like to say."""

from __future__ import annotations

import datetime
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from base_model.gradients import initial_weights
from pytest_crucible.local_model.config import Shape
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.local_model.grammar import (
    Constraint,
    Language,
    characters,
    literal,
    read,
    repeat,
    sequence,
    shortest,
)
from pytest_crucible.local_model.json_schema import json_node, object_node
from pytest_crucible.local_model.sampling import SamplingParams
from pytest_crucible.local_model.tokens import Tokenizer

TOKENIZER = Tokenizer(merges=((34, 58), (58, 32), (123, 34), (116, 114), (258 + 1, 117)))
TEXTS = [TOKENIZER.bytes_of([token]) for token in range(TOKENIZER.pad)]
CHILD = {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}
NODE = {"type": "object", "properties": {"value": {"type": "number"}, "next": CHILD}, "required": ["value", "next"]}
TREE = {"$defs": {"tree": NODE}, "$ref": "#/$defs/tree"}
CLAIMS = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": {"type": "string"}}, "score": {"type": "number"}},
    "required": ["claims"],
    "additionalProperties": False,
}


def language(schema: Any) -> Language:
    return Language(json_node(schema), TEXTS, TOKENIZER.eos)


def draw_reply(built: Language, room: int, random: np.random.Generator) -> str:
    """Choose uniformly among the allowed tokens."""
    constraint, tokens = Constraint(built), []
    while True:
        allowed = np.flatnonzero(constraint.find_mask(room - len(tokens)))
        assert allowed.size, TOKENIZER.decode(tokens)
        token = int(random.choice(allowed))
        if token == TOKENIZER.eos:
            return TOKENIZER.decode(tokens)
        tokens.append(token)
        constraint.advance(token)
        assert len(tokens) < room


LEAVES = st.one_of(
    st.sampled_from([{"type": kind} for kind in ("integer", "number", "boolean", "null", "string")]),
    st.just({"type": "string", "minLength": 2, "maxLength": 4}),
    st.lists(st.sampled_from(["a", "b\n", 3, None]), min_size=1, unique=True).map(lambda values: {"enum": values}),
)


def with_parts(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(st.sampled_from("abc"), parts, max_size=3).flatmap(
        lambda properties: st.sets(st.sampled_from(sorted(properties)) if properties else st.nothing()).map(
            lambda names: {
                "type": "object",
                "properties": properties,
                "required": sorted(names),
                "additionalProperties": False,
            }
        )
    )
    sizes = st.sampled_from([{}, {"minItems": 2}, {"maxItems": 0}, {"minItems": 1, "maxItems": 2}])
    return objects | st.builds(lambda items, size: {"type": "array", "items": items, **size}, parts, sizes)


@given(st.recursive(LEAVES, with_parts, max_leaves=5), st.integers(0, 9), st.integers(0, 30))
def test_every_reply_is_valid_and_ends_in_time(schema, seed, more):
    built = language(schema)
    room = int(built.least_tokens()) + more

    Draft202012Validator(schema).validate(json.loads(draw_reply(built, room, np.random.default_rng(seed))))


def test_a_schema_may_contain_itself():
    built, random = language(TREE), np.random.default_rng(0)
    depths = set()
    for _ in range(20):
        value, depth = json.loads(draw_reply(built, 120, random)), 0
        while value is not None:
            assert set(value) == {"value", "next"}
            value, depth = value["next"], depth + 1
        depths.add(depth)

    assert depths >= {1, 2}


def test_the_shortest_text_is_counted():
    assert shortest(sequence(literal("ab"), repeat(characters("01"), 2, 5))) == 4
    assert language(TREE).least_tokens() == len('{"value": 0, "next": null}') + 1


TAGGED = {
    "oneOf": [{"$ref": "#/$defs/a~1cat"}, {"$ref": "#/$defs/dog"}],
    "discriminator": {"propertyName": "kind"},
    "$defs": {
        "a/cat": {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]},
        "dog": {
            "type": "object",
            "properties": {"kind": {"const": "dog", "type": "string"}, "of": {"$ref": "#/$defs/a~1cat"}},
            "required": ["kind"],
        },
    },
}
SCHEMAS = {
    "an enum with a type": {"type": "integer", "enum": ["a", 1.5, True, 2]},
    "a const in an enum": {"const": "x", "enum": ["y", "x"]},
    "a field without a type": {"type": "object", "properties": {"a": {"title": "A"}}, "required": ["a"]},
    "types that exclude each other": {"oneOf": [{"type": "integer"}, {"type": ["boolean", "null"]}, {"enum": ["a"]}]},
    "a tagged union": TAGGED,
    "lengths without fractions": {"type": "string", "minLength": 1.0, "maxLength": 2.0},
    "a far end": {"type": "array", "items": {"type": "boolean"}, "minItems": 3, "maxItems": 50_000},
    "names with slashes": {
        "type": "object",
        "properties": {"a/properties/b": {"type": "null"}, "a": {"$ref": "#/properties/a~1properties~1b"}},
        "required": ["a"],
    },
    "an item of a list": {
        "type": "array",
        "items": {"anyOf": [{"type": "null"}, {"$ref": "#/items/anyOf/0"}]},
        "minItems": 1,
        "maxItems": 2,
    },
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_unusual_schemas_are_kept(schema):
    built, random, validator = language(schema), np.random.default_rng(0), Draft202012Validator(schema)
    for _ in range(10):
        validator.validate(json.loads(draw_reply(built, int(built.least_tokens()) + 30, random)))


BOUNDS = st.decimals(-1200, 1200, places=2) | st.integers(-20, 20)


@given(st.sampled_from(["integer", "number"]), BOUNDS, BOUNDS, st.booleans(), st.integers(0, 9))
def test_numbers_keep_their_bounds(kind, first, second, exclusive, seed):
    low, high = sorted(map(float, (first, second)))
    schema = {"type": kind, "exclusiveMinimum" if exclusive else "minimum": low, "maximum": high}
    try:
        built = language(schema)
    except ValueError:
        # No number is between them.
        assert high - low < 1 if kind == "integer" else high == low
        return
    text = draw_reply(built, int(built.least_tokens()) + 12, np.random.default_rng(seed))

    Draft202012Validator(schema).validate(json.loads(text))


@pytest.mark.parametrize(
    ("schema", "texts", "others"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 10}, ["0", "7", "10"], ["-1", "11", "-0", "07"]),
        (
            {"type": "integer", "minimum": 95, "maximum": 1203},
            ["95", "99", "100", "999", "1000", "1203"],
            ["94", "1204", "2000"],
        ),
        ({"type": "integer", "minimum": 8, "maximum": 10**400}, ["8", "999999999"], ["7", "1000000000"]),
        ({"type": "integer", "exclusiveMinimum": -3, "exclusiveMaximum": 0}, ["-2", "-1"], ["-3", "0", "-0"]),
        (
            {"type": "number", "minimum": 0.5, "maximum": 2.25},
            ["0.5", "0.50", "0.6", "1", "1.999", "2.0", "2.25"],
            ["0", "0.49", "2.26", "2.251", "3"],
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            ["0.000000001", "1", "1.0", "0.5"],
            ["0", "0.0", "1.1"],
        ),
        ({"type": "number", "minimum": 1e-10, "maximum": 1}, ["0.000000001", "1"], ["0", "0.000000000"]),
        ({"type": "string", "pattern": "^[A-Z]{2}-\\d+$"}, ['"AB-1"', '"ZZ-042"'], ['"A-1"', '"AB-"', '"ab-1"']),
        ({"type": "string", "pattern": "^[+-]-[a-c-]$"}, ['"+-b"', '"---"'], ['"+-d"', '"a-b"']),
        ({"type": "string", "pattern": "b|^c$"}, ['"abc"', '"b"', '"c"'], ['"ac"', '""']),
        ({"type": "string", "pattern": "^(?:no|yes)[.!]?$"}, ['"no"', '"yes!"'], ['"maybe"', '"no?"']),
        ({"type": "string", "pattern": "^[^a-y\\s]*$"}, ['""', '"zZ9"'], ['"a"', '" "']),
        (
            {"type": "string", "format": "date"},
            ['"2024-02-28"', '"1999-12-31"'],
            ['"2024-02-30"', '"2024-13-01"', '"2024-4-1"'],
        ),
    ],
)
def test_texts_within_bounds_and_patterns_are_allowed_and_no_others(schema, texts, others):
    start = language(schema).start

    assert [text for text in texts if () not in read(start, text.encode())] == []
    assert [text for text in others if () in read(start, text.encode())] == []


def test_fields_of_pydantic_models_are_kept():
    pydantic = pytest.importorskip("pydantic")

    class Row(pydantic.BaseModel):
        score: int = pydantic.Field(ge=0, le=10)
        share: float = pydantic.Field(gt=0, lt=1)
        code: str = pydantic.Field(pattern=r"^[A-Z]{3}\d?$")
        day: datetime.date

    built, random = language(Row.model_json_schema()), np.random.default_rng(0)
    for _ in range(10):
        Row.model_validate_json(draw_reply(built, int(built.least_tokens()) + 20, random))


REFUSED = [
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "valid for #/oneOf/0 and #/oneOf/1: write anyOf instead"),
    ({"oneOf": [True, {"type": "null"}]}, "write anyOf instead"),
    ({"oneOf": [{"const": 1}, {"enum": [2, 1.0]}]}, "write anyOf instead"),
    ({"anyOf": []}, "#/anyOf is []; expected a list of schemas"),
    ({"type": "string", "enum": [1, None]}, "# allows no value: its const, enum and type exclude each other"),
    ({"const": "x", "enum": ["y"]}, "# allows no value"),
    ({"enum": [float("nan")]}, "not JSON compliant"),
    ({"type": "string", "minLength": 5, "maxLength": 2}, "# allows no value: minLength is 5 and maxLength 2"),
    ({"type": "array", "minItems": 2, "maxItems": 0}, "# allows no value: minItems is 2 and maxItems 0"),
    ({"type": "string", "minLength": "3"}, "#/minLength is '3'; expected a whole number from 0"),
    ({"type": "array", "maxItems": True}, "#/maxItems is True; expected a whole number from 0"),
    ({"type": "object", "properties": ["a"]}, "#/properties must be an object, not ['a']"),
    ({"type": "object", "properties": {"a": True}, "required": "a"}, "#/required is 'a'; expected a list of names"),
    ({"type": [{"type": "string"}]}, "#/type is [{'type': 'string'}]; expected one of object"),
    ({"allOf": [{"type": "string"}]}, "# has 'allOf', which this model's decoding cannot keep"),
    ({"type": "integer", "multipleOf": 2}, "# has 'multipleOf', which this model's decoding cannot keep"),
    ({"type": "integer", "minimum": 3.2, "maximum": 3.8}, "# allows no whole number of at most 9 digits"),
    ({"type": "number", "minimum": 1, "exclusiveMaximum": 1}, "# allows no number with at most 9 digits"),
    ({"type": "number", "minimum": "0"}, "#/minimum is '0'; expected a number"),
    ({"type": "number", "minimum": math.inf}, "#/minimum is inf; expected a number"),
    ({"type": "integer", "exclusiveMinimum": True}, "#/exclusiveMinimum is True; expected a number"),
    ({"enum": ["a"], "format": "date"}, "# has 'format', which this model's decoding cannot keep: leave it out"),
    (
        {"type": "string", "format": "email"},
        "#/format is 'email', this model's decoding keeps date, time, date-time, uuid",
    ),
    ({"type": "string", "pattern": "a", "minLength": 2}, "# has minLength, pattern together"),
    *(
        ({"type": "string", "pattern": pattern}, "#/pattern: this model's decoding cannot keep")
        for pattern in ("(?=a)b", "a**", "[b-a]", "a(", "a)", "\\1", "\\bword", "é", "a{3,2}", "x^", "[]", "(a?){51}")
    ),
    ({"anyOf": [{"type": "null"}], "minLength": 2}, "# has 'minLength', which this model's decoding cannot keep"),
    ({"type": "array", "items": {"$id": "b", "type": "null"}}, "#/items has '$id'"),
    ({"type": "array", "items": {"$ref": "#/$defs/none"}}, "$ref '#/$defs/none' names nothing in this schema"),
    (
        {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "string", "pattern": 1}}},
        "#/$defs/a/pattern is 1; expected a text",
    ),
]


@pytest.mark.parametrize(("schema", "words"), REFUSED)
def test_unsupported_schemas_are_refused_when_they_are_read(schema, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        json_node(schema)


def test_a_schema_that_nests_without_an_end_is_refused_or_has_no_text():
    nested: dict[str, Any] = {"type": "integer"}
    for _ in range(1000):
        nested = {"type": "array", "items": nested}
    with pytest.raises(ValueError, match="the schema nests too deeply"):
        json_node(nested)

    itself = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    assert {language(schema).least_tokens() for schema in ({"$ref": "#"}, itself)} == {math.inf}
    # A name that leads back to itself adds nothing to the other ways.
    built = language({"anyOf": [{"$ref": "#"}, {"type": "boolean"}]})
    assert draw_reply(built, 9, np.random.default_rng(0)) in ("true", "false")


def test_many_optional_properties_take_linear_time():
    properties = {f"p{number}": {"type": "boolean"} for number in range(60)}
    built, random = language({"type": "object", "properties": properties}), np.random.default_rng(0)
    values = [json.loads(draw_reply(built, 60, random)) for _ in range(5)]

    assert built.least_tokens() == len("{}") + 1
    assert all(list(value) == sorted(value, key=lambda name: int(name[1:])) for value in values)
    assert any(values)


def depth_of(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, dict | list) + max(map(depth_of, parts), default=0)


def test_an_object_of_any_content_is_nested_to_a_limit():
    built, random = Language(object_node(3), TEXTS, TOKENIZER.eos), np.random.default_rng(0)
    values = [json.loads(draw_reply(built, 60, random)) for _ in range(150)]

    assert {type(value) for value in values} == {dict}
    assert max(map(depth_of, values)) == 3
    kinds = {type(part) for value in values for part in value.values()}
    assert kinds == {str, int, float, bool, type(None), list, dict}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("allowed", "is_valid"),
    [
        (Language(object_node(), TEXTS, TOKENIZER.eos), lambda value: isinstance(value, dict)),
        (language(CLAIMS), Draft202012Validator(CLAIMS).is_valid),
    ],
    ids=["any object", "a schema"],
)
def test_a_thousand_replies_of_a_model_that_knows_no_json_are_json(allowed, is_valid):
    shape = Shape(vocabulary=TOKENIZER.vocabulary, width=16, layers=1, heads=2, mlp=16, context=128)
    engine = Engine(TOKENIZER, shape, initial_weights(shape, seed=0), "test")
    params = SamplingParams(max_tokens=60, seed=0, num_samples=1000, language=allowed)
    replies = engine.sampler().sample([[1]], params)

    assert sum(is_valid(json.loads(reply.text)) for reply in replies) == 1000
    assert {reply.stop_reason for reply in replies} == {"stop"}


def test_rows_without_a_language_are_as_they_would_be_alone():
    shape = Shape(vocabulary=TOKENIZER.vocabulary, width=16, layers=1, heads=2, mlp=16, context=64)
    sampler = Engine(TOKENIZER, shape, initial_weights(shape, seed=0), "test").sampler()
    free, bound = (
        SamplingParams(max_tokens=20, seed=3, language=built) for built in (None, language({"type": "boolean"}))
    )
    (alone,) = sampler.sample([[1, 2]], free)
    together = sampler.sample([[1, 2], [1, 2]], [free, bound])

    assert together[0].tokens == alone.tokens
    assert together[1].text in ("true", "false")
