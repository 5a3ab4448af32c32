"""Searches of decisions: the grammar, fields without a value, and what is refused."""

from __future__ import annotations

import contextlib
import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import SpecError
from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.load_decisions import Chain
from pytest_crucible.features.provenance.search import parse_search

CHAIN = Chain(experiment="t.py::test", arm="v2", sample="q17", repeat=1, variant="", decisions=())
UNSURE = Decision(
    number=3, kind="ambiguity_flagged", decision="Binary search", over=("scan", "hash"), because="it is sorted",
    confidence=0.6, revises=2, stage="choose/inner", calls=1,
)  # fmt: skip
SILENT = Decision(number=1, kind="my_own", decision="x", is_claim=True)


@pytest.mark.parametrize(
    ("search", "unsure", "silent"),
    [
        ("kind = ambiguity_flagged and confidence < 0.7", True, False),
        ("confidence < 0.7", True, None),
        ("not confidence < 0.7", False, None),
        ("confidence != 0.7", True, None),
        ("confidence <= 60%", True, None),
        ("confidence > 0.6 or number = 1", False, True),
        ("confidence > 0.6 and number = 1", False, None),
        ("revises >= 2", True, None),
        # A decision has the kinds that follow from its alternatives and from what it revises, too.
        ("kind = alternative_rejected", True, False),
        ("kind != confidence_updated", False, True),
        ("kind contains OWN", False, True),
        ("over = hash", True, False),
        ("over contains 'as'", True, False),
        ('decision = "Binary search"', True, False),
        ("decision contains 'binary S'", True, False),
        ("because contains sorted", True, False),
        ("stage contains inner", True, False),
        ("claim = yes", False, True),
        ("not claim = true", True, False),
        # A repeat is counted from 1, as in the heading above the decision.
        ("sample = q17 and arm = v2 and experiment contains test and repeat = 2 and calls < 2", True, True),
        ("not (kind = my_own or number = 3)", False, False),
        ("number = 1 and number = 3 or number = 3", True, False),
        ("number=3 or(number=1)", True, True),
    ],
)
def test_what_a_search_finds(search, unsure, silent):
    is_meant = parse_search(search)

    assert (is_meant(CHAIN, UNSURE), is_meant(CHAIN, SILENT)) == (unsure, silent)


EXAMPLE = "for example 'kind = ambiguity_flagged and confidence < 0.7'"


@pytest.mark.parametrize(
    ("search", "sentence"),
    [
        ("confidense < 0.7", "--where has the field 'confidense': did you mean 'confidence'? the fields are kind, decision, *"),
        ("kind = ambigity_flagged", "--where has the kind 'ambigity_flagged': did you mean 'ambiguity_flagged'? *"),
        ("confidence < high", f"--where cannot be read at 'high' (character 14): expected a number, {EXAMPLE}"),
        ("claim = maybe", f"--where cannot be read at 'maybe' (character 9): expected yes or no, {EXAMPLE}"),
        ("confidence contains 0.7", "--where cannot be read at '0.7' (character 21): confidence is a number, *"),
        ("confidence", f"--where cannot be read at its end: expected one of =, !=, <, <=, >, >=, contains, {EXAMPLE}"),
        ("number = 1 number = 2", f"--where cannot be read at 'number' (character 12): expected and, or, or its end, {EXAMPLE}"),
        ("(number = 1", f"--where cannot be read at its end: expected and, or, or ')', {EXAMPLE}"),
        ("number = ", f"--where cannot be read at its end: expected a number, {EXAMPLE}"),
        ("not", f"--where cannot be read at its end: expected a field, {EXAMPLE}"),
        ("decision = 'a", f"--where cannot be read at \"'\" (character 12): expected a text, {EXAMPLE}"),
        ("(" * 1000, "--where cannot be read at '(' (character 101): expected at most 100 levels *"),
        ("not " * 100_000, "--where cannot be read at 'not' (character *): expected at most 100 levels *"),
    ],
)  # fmt: skip
def test_a_search_that_cannot_be_read_is_refused(search, sentence):
    with pytest.raises(SpecError) as caught:
        parse_search(search)

    assert fnmatch.fnmatchcase(str(caught.value), sentence.replace("[", "[[]"))


def test_a_kind_of_the_models_own_may_be_searched():
    assert parse_search("kind = my_own")(CHAIN, SILENT) is True


words = st.sampled_from(["kind", "=", "(", ")", "and", "not", "or", "0.7", "'", "confidence", "<"])


@given(st.text() | st.lists(words).map(" ".join))
def test_any_search_is_read_or_refused(text):
    with contextlib.suppress(SpecError):
        assert parse_search(text)(CHAIN, UNSURE) in (True, False, None)


simple = st.sampled_from(["confidence < 0.7", "number = 3", "kind = my_own", "revises = 2", "claim = yes"])


@given(simple, simple, st.sampled_from([UNSURE, SILENT]))
def test_not_and_or_are_those_of_de_morgan(first, second, decision):
    both, either = (
        parse_search(text)(CHAIN, decision) for text in (f"not ({first} and {second})", f"not {first} or not {second}")
    )
    assert both is either
