"""Metrics that read a reply as text, as JSON, or not at all."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import NotApplicable, Reply, Sample, SpecError
from pytest_crucible.metrics import (
    contains_expected,
    exact_match,
    latency_s,
    matches,
    normalise,
    output_tokens,
    valid_json,
)

ANY = Sample(id="a", input="")
NO_EXPECTED = NotApplicable("the sample has no expected answer: fields={'expected': 'NAME'} names its field")


def expecting(expected: object) -> Sample:
    return Sample(id="a", input="", expected=expected)


# -- text ---------------------------------------------------------------------------------------------------------


@given(st.text())
def test_normalising_is_idempotent(text):
    once = normalise(text)

    assert once == once.strip()
    assert "  " not in once
    assert " ".join(once.split()) == once


@pytest.mark.parametrize(
    ("text", "expected", "equal"),
    [
        ("Paris", "Paris", True),
        ("  paris\n", "Paris", True),
        ("New\n  York", "new york", True),
        ("\N{LATIN SMALL LIGATURE FI}ne", "fine", True),
        ("STRASSE", "straße", True),
        ("18", 18, True),
        ("lyon", ["Paris", "Lyon"], True),
        ("lyon", ("Paris", "Lyon"), True),
        ("Paris.", "Paris", False),
        ("Paris, France", "Paris", False),
        ("Nice", ["Paris", "Lyon"], False),
        ("Nice", [], False),
        ("", "Paris", False),
    ],
)
def test_exact_match_compares_normalised_texts(text, expected, equal):
    assert exact_match(Reply(text=text), expecting(expected)) is equal


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("It is PARIS, of course", "paris", True),
        ("it is new\nyork", "New York", True),
        ("42 it is", 42, True),
        ("Lyon perhaps", ["Paris", "Lyon"], True),
        ("Nice", ["Paris", "Lyon"], False),
        ("par is", "Paris", False),
        ("anything", "", False),
        ("anything", " \n", False),
        ("", "", False),
        ("It is Lyon", ["", "Lyon"], True),
        ("It is Nice", ["", "Lyon"], False),
    ],
)
def test_contains_expected_looks_anywhere_in_the_reply(text, expected, found):
    assert contains_expected(Reply(text=text), expecting(expected)) is found


@pytest.mark.parametrize("metric", [exact_match, contains_expected], ids=lambda metric: metric.name)
def test_without_an_expected_answer_they_do_not_apply(metric):
    assert metric(Reply(text="Paris"), ANY) == NO_EXPECTED


@pytest.mark.parametrize(("text", "found"), [("yes", True), ("well, yes", True), ("eyes", False), ("YES", False)])
def test_matches_finds_a_pattern_anywhere(text, found):
    assert matches(r"\byes\b")(Reply(text=text), ANY) is found


def test_matches_takes_the_flags_of_re():
    assert matches("^yes$", flags=re.IGNORECASE | re.MULTILINE)(Reply(text="well\nYES"), ANY) is True


def test_the_version_depends_on_pattern_and_flags():
    versions = {one.facts.version for one in (matches("a"), matches("b"), matches("a", flags=re.IGNORECASE))}

    assert len(versions) == 3


# -- JSON ---------------------------------------------------------------------------------------------------------

LABELLED = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}, "required": ["label"]}


@pytest.mark.parametrize("text", ["{}", "[1, 2]", "null", "1.5", '"x"', ' {"a": [true]}\n'])
def test_any_json_is_valid_without_a_schema(text):
    assert valid_json()(Reply(text=text), ANY) is True


@pytest.mark.parametrize(
    "text",
    ["", "{", "yes", "{'a': 1}", '{"a": 1} and more', "```json\n{}\n```", "NaN", '{"a": -Infinity}'],
    ids=["nothing", "cut", "word", "quotes", "more", "fence", "nan", "infinity"],
)
def test_text_that_is_not_json_is_not_valid(text):
    assert valid_json()(Reply(text=text), ANY) is False


@pytest.mark.parametrize(
    ("text", "valid"),
    [('{"label": "yes", "why": 1}', True), ('{"label": "maybe"}', False), ("{}", False), ("[]", False), ("{", False)],
)
def test_json_must_satisfy_the_schema(text, valid):
    assert valid_json(LABELLED)(Reply(text=text), ANY) is valid


def test_the_draft_is_the_one_that_the_schema_names():
    """`exclusiveMinimum` was a flag in draft 4 and became a number later."""
    draft_4 = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "minimum": 0,
        "exclusiveMinimum": True,
    }

    assert valid_json(draft_4)(Reply(text="0"), ANY) is False


def test_a_reply_nested_deeper_than_python_reads_is_not_valid():
    assert valid_json()(Reply(text="[" * 100_000 + "]" * 100_000), ANY) is False


def test_an_invalid_schema_is_an_error():
    with pytest.raises(SpecError) as caught:
        valid_json({"type": "text"}, name="labelled")

    assert str(caught.value).startswith("the schema of metric 'labelled' is not a JSON Schema: 'text' is not valid")


def test_the_version_depends_on_the_schema():
    assert valid_json(LABELLED).facts.version != valid_json().facts.version
    assert valid_json(LABELLED).facts.version == valid_json(dict(reversed(LABELLED.items()))).facts.version


# -- usage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "reply", "value"),
    [
        (latency_s, Reply(text="", latency_s=0.25), 0.25),
        (latency_s, Reply(text="", latency_s=0.0), 0.0),
        (latency_s, Reply(text=""), NotApplicable("the reply has no latency")),
        (output_tokens, Reply(text="", output_tokens=12), 12),
        (output_tokens, Reply(text="", output_tokens=0), 0),
        (output_tokens, Reply(text=""), NotApplicable("the backend reports no token counts")),
    ],
    ids=["latency", "no-wait", "latency-unknown", "tokens", "no-token", "tokens-unknown"],
)
def test_usage_metrics_return_known_numbers(metric, reply, value):
    assert metric(reply, ANY) == value


@pytest.mark.parametrize("metric", [latency_s, output_tokens], ids=lambda metric: metric.name)
def test_usage_metrics_are_positive_and_lower_is_better(metric):
    assert (metric.facts.direction, metric.facts.low) == ("lower", 0)
