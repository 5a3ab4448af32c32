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


def test_the_version_depends_on_the_schema():
    assert valid_json(LABELLED).facts.version != valid_json().facts.version
    assert valid_json(LABELLED).facts.version == valid_json(dict(reversed(LABELLED.items()))).facts.version
