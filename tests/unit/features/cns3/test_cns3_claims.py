"""The claim format is read line by line, and written so that it is read back."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.cns3.claims import Claim, Flaw, Relation, parse, render

WHOLE = """\
CLAIM[c1]: Tea shortens colds.
CLAIM[c2] (Document 7): In adults it did.
RELATION: c2 supports c1
CLAIM[c3] (Document 8, Document 9): In children it did not.
RELATION: c3 refutes c1
"""
texts = st.text(string.ascii_letters + string.digits + " .,:()[]-äΩ", min_size=1).map(str.strip).filter(bool)
documents = st.lists(st.integers(0, 10**9).map(str), max_size=3, unique=True).map(tuple)


@st.composite
def extractions(draw):
    claims = [Claim(f"c{k}", draw(texts), draw(documents)) for k in range(1, draw(st.integers(1, 6)) + 1)]
    labels = st.sampled_from(["supports", "refutes", "contrasts"])
    relations = [Relation(one.id, draw(labels), "c1") for one in claims[1:]]
    return claims, relations


def defects(reply: str, **options) -> list[tuple[str, int]]:
    return [(flaw.defect, flaw.line) for flaw in parse(reply, **options).flaws]


@given(extractions())
def test_what_is_written_is_read_back(extraction):
    claims, relations = extraction
    read = parse(render(claims, relations))

    assert list(read.claims) == claims
    assert list(read.relations) == relations
    assert read.well_formed


@given(st.text())
def test_no_text_is_too_odd_to_be_read(reply):
    lines = [line for line in reply.split("\n") if line.strip()]
    read = parse(reply)

    assert len(read.claims) + len(read.relations) + len(read.flaws) >= len(lines)


def test_a_whole_reply_has_no_flaws():
    read = parse(WHOLE)

    assert read.well_formed
    assert read.central == "Tea shortens colds."
    assert read.documents == ("7", "8", "9")
    assert [one.label for one in read.relations] == ["supports", "refutes"]


def test_windows_line_ends_and_blank_lines_change_nothing():
    assert parse(WHOLE.replace("\n", "\r\n\r\n")) == parse(WHOLE)


@pytest.mark.parametrize("relation", ["c2 supports c1.", "C2 SUPPORTS C1", "[c2] supports `c1`", "c2 supports c1,"])
def test_punctuation_and_case_belong_to_no_id(relation):
    read = parse(f"CLAIM[c1]: a\nCLAIM[c2]: b\nRELATION: {relation}")

    assert read.relations == (Relation("c2", "supports", "c1"),)
    assert read.well_formed


def test_a_relation_may_stand_before_its_claim():
    assert parse("RELATION: c2 supports c1\nCLAIM[c1]: a\nCLAIM[c2]: b").well_formed


def test_contradicts_is_read_as_refutes():
    assert parse("CLAIM[c1]: a\nCLAIM[c2]: b\nRELATION: c2 contradicts c1").relations[0].label == "refutes"


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("", [("no central claim", 0)]),
        ("CLAIM[c1]: a\nSo much for that.", [("unreadable", 2)]),
        ("- CLAIM[c1]: a", [("marked up", 1)]),
        ("1. CLAIM[c1]: a", [("marked up", 1)]),
        ("**CLAIM[c1]: a**", [("marked up", 1)]),
        ("CLAIM[c1]:", [("empty claim", 1)]),
        ("CLAIM[c1]: a\nCLAIM[c1]: b", [("duplicate id", 2)]),
        ("CLAIM[c1]: a\nCLAIM[c3]: b\nRELATION: c3 supports c1", [("gap in ids", 2)]),
        ("CLAIM[c2]: a\nRELATION: c2 supports c1", [("gap in ids", 1), ("unknown id", 2), ("no central claim", 0)]),
        ("CLAIM[c1]: a\nRELATION: c2 supports c1", [("unknown id", 2)]),
        ("CLAIM[c1]: a\nCLAIM[c2]: b\nRELATION: c2 proves c1", [("unrelated claim", 2), ("unknown label", 3)]),
        ("CLAIM[c1]: a\nRELATION: c1 supports c1", [("relates to itself", 2)]),
        ("CLAIM[c1]: a\nCLAIM[c2]: b", [("unrelated claim", 2)]),
        ("CLAIM[c1]: a\nCLAIM[c2] (Dr. No): b\nRELATION: c2 supports c1", [("unreadable", 2)]),
        ("CLAIM[c1]: a\nCLAIM[c2] (Docu", [("unreadable", 2)]),
    ],
)
def test_each_defect_has_a_name_and_a_line(reply, found):
    assert defects(reply) == found


def test_a_reply_that_ended_at_its_limit_has_a_last_line_that_is_not_whole():
    assert defects(WHOLE, cut_off=True) == [("cut off", 5)]
    assert parse(WHOLE, cut_off=True).flaws == (Flaw("cut off", 5, "the reply ended at its limit"),)


def test_of_two_claims_with_one_id_the_first_counts():
    assert parse("CLAIM[c1]: a\nCLAIM[c1]: b").central == "a"
