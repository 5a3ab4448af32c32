"""Metrics that read a reply as text, as JSON, or not at all."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import NotApplicable, Reply, Sample, SpecError
from pytest_crucible.metrics import contains_expected, exact_match, matches, normalise, valid_json

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
    ("text", "expected", "contains"),
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
def test_contains_expected_looks_anywhere_in_the_reply(text, expected, contains):
    assert contains_expected(Reply(text=text), expecting(expected)) is contains


def test_without_an_expected_answer_they_do_not_apply():
    assert exact_match(Reply(text="Paris"), ANY) == contains_expected(Reply(text="Paris"), ANY) == NO_EXPECTED


def test_matches_finds_a_pattern_anywhere():
    word, line = matches(r"\byes\b"), matches("^yes$", flags=re.IGNORECASE | re.MULTILINE)

    assert [word(Reply(text=text), ANY) for text in ("yes", "well, yes", "eyes", "YES")] == [True, True, False, False]
    assert line(Reply(text="well\nYES"), ANY) is True
    assert (
        len({metric.facts.version for metric in (matches("a"), matches("b"), matches("a", flags=re.IGNORECASE))}) == 3
    )


# -- JSON ---------------------------------------------------------------------------------------------------------

LABELLED = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}, "required": ["label"]}


# `exclusiveMinimum` was a flag in draft 4 and became a number later: the draft is the one that the schema names.
DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 0, "exclusiveMinimum": True}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (
            None,
            ["{}", "[1, 2]", "null", "1.5", '"x"', ' {"a": [true]}\n'],
            ["", "{", "yes", "{'a': 1}", '{"a": 1} and more', "```json\n{}\n```", "NaN", '{"a": -Infinity}'],
        ),
        (LABELLED, ['{"label": "yes", "why": 1}'], ['{"label": "maybe"}', "{}", "[]", "{"]),
        (DRAFT_4, ["1"], ["0"]),
    ],
)
def test_replies_are_json_that_satisfies_the_schema(schema, valid, invalid):
    metric = valid_json() if schema is None else valid_json(schema)

    assert [text for text in valid if not metric(Reply(text=text), ANY)] == []
    assert [text for text in invalid if metric(Reply(text=text), ANY)] == []


def test_an_invalid_schema_is_an_error():
    with pytest.raises(SpecError) as caught:
        valid_json({"type": "text"}, name="labelled")

    assert str(caught.value).startswith("the schema of metric 'labelled' is not a JSON Schema: 'text' is not valid")


def test_the_version_depends_on_the_schema():
    assert valid_json(LABELLED).facts.version != valid_json().facts.version
    assert valid_json(LABELLED).facts.version == valid_json(dict(reversed(LABELLED.items()))).facts.version
