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
    ("text", "right"),
    [
        ("CAFE\u0301", "Café"),
        ("STRASSE", "Straße"),
        ("\u200fنعم", "نعم"),
        ("東\u200b京", "東京"),
        ("ｶﾞ", "ガ"),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", "한글"),
        ("ОТВЕТ", "ответ"),
    ],
)
def test_forms_of_one_text_are_equal_in_any_script(text, right):
    assert exact_match(Reply(text=text), expecting(right)) is True
    assert contains_expected(Reply(text=f"- {text} -"), expecting(right)) is True


def test_without_an_expected_answer_they_do_not_apply():
    assert exact_match(Reply(text="Paris"), ANY) == contains_expected(Reply(text="Paris"), ANY) == NO_EXPECTED


def test_matches_takes_flags_which_are_part_of_its_version():
    assert matches("^yes$", flags=re.IGNORECASE | re.MULTILINE)(Reply(text="well\nYES"), ANY) is True
    assert (
        len({metric.facts.version for metric in (matches("a"), matches("b"), matches("a", flags=re.IGNORECASE))}) == 3
    )


# -- JSON ---------------------------------------------------------------------------------------------------------

LABELLED = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}, "required": ["label"]}


def test_an_invalid_schema_is_an_error():
    with pytest.raises(SpecError) as caught:
        valid_json({"type": "text"}, name="labelled")

    assert str(caught.value).startswith("the schema of metric 'labelled' is not a JSON Schema: 'text' is not valid")


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"multipleOf": 0.01}, ["19.99", "-0.07", "3", "1e300"], ["19.995", "1e400"]),
        ({"multipleOf": 3}, ["9", "9.0"], ["10", "9.5"]),
        ({"pattern": r"^\d+$"}, ['"12"'], ['"٤٢"', r'"12\n"']),
        ({"pattern": r"^\w+$"}, ['"a_1"'], ['"é"']),
        ({"pattern": r"^\s$"}, [r'"\ufeff"', '" "'], [r'"\u001c"']),
        ({"pattern": "^.$"}, ['"a"'], [r'"\u2028"', r'"\r"']),
        ({"pattern": r"^a\b"}, ['"aé"'], ['"ab"']),
        ({"pattern": r"^\p{L}+$"}, ['"Мир"', '"é"'], ['"a1"']),
        ({"pattern": r"^\p{Script=Greek}\P{L}$"}, ['"α1"'], ['"a1"', '"αβ"']),
        ({"pattern": r"^[\D&&\-a-c\u{1F600}]{2}$"}, ['"x&"', '"😀-"'], ['"1a"']),
        ({"pattern": r"^[^\W]$"}, ['"a"'], ['"é"', '"-"']),
        ({"pattern": r"^\ud83d\ude00\x41\u0042\/\cJ$"}, [r'"😀AB/\n"'], ['"A"']),
        ({"pattern": r"^(?<year>\d{4})-\k<year>(?=!)(?<!x)"}, ['"2020-2020!"'], ['"2020-2021!"']),
        ({"pattern": "^a{e}$"}, ['"a{e}"'], ['"b"', '"aa"']),
        ({"pattern": "^[^]$"}, [r'"\n"'], ['""']),
        ({"pattern": "[]"}, ["1"], ['"a"']),
        (
            {"patternProperties": {r"^\p{Lu}": {"type": "integer"}}, "additionalProperties": False},
            ['{"Ж": 1}'],
            ['{"ж": 1}', '{"Ж": "x"}'],
        ),
        ({"enum": [{"pattern": "("}]}, ['{"pattern": "("}'], ["1"]),
        ({"properties": {"pattern": {"type": "string"}}}, ['{"pattern": "("}'], ['{"pattern": 1}']),
    ],
)
def test_a_schema_means_what_its_dialect_says(schema, right, wrong):
    valid = valid_json(schema)

    assert [text for text in right if not valid(Reply(text=text), ANY)] == []
    assert [text for text in wrong if valid(Reply(text=text), ANY)] == []


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (
            {"pattern": "("},
            "is not a JSON Schema: the pattern '(' is not a regular expression of JSON Schema: missing )",
        ),
        ({"pattern": r"\A"}, r"the pattern '\\A' is not a regular expression of JSON Schema: \A has no meaning in it"),
        ({"pattern": "[a"}, "the pattern '[a' is not a regular expression of JSON Schema: a [ is not closed"),
        ({"pattern": "a\\"}, "it ends with a backslash"),
        ({"items": {"patternProperties": {r"\p{Nothing}": {}}}}, "is not a regular expression of JSON Schema"),
        (
            {"unevaluatedProperties": False, "allOf": [{"patternProperties": {r"^\p{L}": {}}}]},
            r"has unevaluatedProperties and the pattern '^\\p{L}', which are not checked together: write additional",
        ),
        (
            {"$schema": "https://json-schema.org/draft-07/schema#"},
            "has $schema 'https://json-schema.org/draft-07/schema#', which is not a dialect that can be checked: "
            "did you mean 'http://json-schema.org/draft-07/schema#'?",
        ),
        ({"$schema": 7}, "has $schema 7, which is not a dialect that can be checked: write one of http://"),
    ],
)
def test_a_schema_that_cannot_be_checked_is_an_error(schema, sentence):
    with pytest.raises(SpecError) as caught:
        valid_json(schema)

    assert sentence in str(caught.value)


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
MAIL, NO_MAIL = Reply(text='"a@example.com"'), Reply(text='"no"')


@pytest.mark.parametrize(
    ("schema", "formats", "checked"),
    [
        ({"$schema": DRAFT_7, "format": "email"}, None, True),
        ({"$schema": DRAFT_7, "format": "email"}, False, False),
        ({"format": "email"}, True, True),
        ({"format": "email"}, False, False),
    ],
)
def test_a_format_is_checked_as_the_dialect_or_the_suite_says(schema, formats, checked):
    valid = valid_json(schema, formats=formats)

    assert valid(MAIL, ANY) is True
    assert valid(NO_MAIL, ANY) is not checked


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (
            {"format": "email"},
            "metric 'valid_json': format 'email' not checked by JSON Schema 2020-12: formats=True checks them",
        ),
        (
            {"$schema": DRAFT_7, "items": {"format": "telephone"}},
            "metric 'valid_json': format 'telephone' not checked without pip install \"jsonschema[format]\"",
        ),
    ],
)
def test_a_format_that_is_not_checked_is_named(schema, sentence):
    with pytest.warns(UserWarning, match="not checked") as warnings:
        valid = valid_json(schema)

    assert [str(warning.message) for warning in warnings] == [sentence]
    assert valid(NO_MAIL, ANY) is True


def test_a_format_that_cannot_be_checked_is_an_error_where_it_is_to_be():
    with pytest.raises(SpecError, match="is to check formats, and 'telephone' cannot be checked"):
        valid_json({"format": "telephone"}, formats=True)


def test_the_version_depends_on_the_schema():
    assert valid_json(LABELLED).facts.version != valid_json().facts.version
    assert valid_json(LABELLED).facts.version != valid_json(LABELLED, formats=True).facts.version
    assert valid_json(LABELLED).facts.version == valid_json(dict(reversed(LABELLED.items()))).facts.version
