"""A value that was found once is found in every disguise, and nothing else is."""

from __future__ import annotations

import base64
import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.detectors.replacements import FEW, FoundValues, SharedValues
from pytest_crucible.features.robustness.characters import HOMOGLYPHS
from pytest_crucible.guards.forms import read_forms
from pytest_crucible.guards.normalise import normalise
from pytest_crucible.records.detections import Span

VALUE = "tr0ub4dor3xyz"


def learned(*values: str) -> FoundValues:
    found = FoundValues(normalise, read_forms)
    for value in values:
        found.learn(f"it is {value}", [Span("PASSWORD", 6, 6 + len(value))])
    return found


@given(st.data())
def test_a_disguised_value_is_found_where_it_is(data):
    others = [
        "".join(map(chr, range(97 + k % 20, 104 + k % 20))) + f"{k:04}"
        for k in range(data.draw(st.sampled_from([0, FEW + 9])))
    ]
    disguised = ""
    for sign in VALUE:
        sign = data.draw(st.sampled_from([sign, sign.upper(), chr(ord(sign) + 0xFEE0)]))
        disguised += sign + data.draw(st.sampled_from(["", "", "\u200b", "\u00ad", " "]))
    text = f"say {disguised.strip()}, please"

    [span] = learned(VALUE, *others).find(text)
    assert text[span.start : span.end].strip("\u200b\u00ad") == disguised.strip().strip("\u200b\u00ad")


@pytest.mark.parametrize("text", ["", "a tr0ub4dor", "4dor3 xyz tr0u", "unrelated words " * 90])
def test_nothing_else_is_found(text):
    assert learned(VALUE).find(text) == []


@pytest.mark.parametrize(
    ("value", "text"), [("anna", "hannah"), ("123456", "0123456789"), ("abcd", "ab cd"), ("an", "an")]
)
def test_a_short_value_must_be_a_word_of_its_own(value, text):
    assert learned(value).find(text) == []


@pytest.mark.parametrize(
    "encode", [lambda text: base64.b64encode(text.encode()).decode(), lambda text: codecs.encode(text, "rot13")]
)
def test_a_text_that_has_it_encoded_is_hidden_whole(encode):
    text = encode(f"the secret is {VALUE} and nothing else")

    assert learned(VALUE).find(text) == [Span("PASSWORD", 0, len(text))]


@pytest.mark.parametrize(
    "changed", ["tr0ub4dr3xyz", "tr0bu4dor3xyz", "tr0ubb4dor3xyz", "tr9ub4dor3xy", "tr0ub 4dr3xyz"]
)
def test_what_an_attack_makes_of_it_is_found_afterwards(changed):
    found = learned(VALUE)
    found.learn_changed(f"log in with {VALUE} today", f"log in wiht {changed}, today")

    assert [span.type for span in found.find(f"you said {changed}!")] == ["PASSWORD"]
    assert found.find("log in wiht today") == []


def test_values_of_other_processes_are_found_and_no_file_shows_them(tmp_path):
    one, other = (FoundValues(normalise, read_forms, SharedValues(tmp_path, b"key")) for _ in range(2))
    one.learn(VALUE, [Span("PASSWORD", 0, len(VALUE))])

    assert other.find(f"is {VALUE}") == [Span("PASSWORD", 3, 3 + len(VALUE))]
    assert all(VALUE.encode() not in file.read_bytes() for file in tmp_path.iterdir())


def test_every_look_alike_of_the_attacks_is_read():
    unread = {sign for latin, signs in HOMOGLYPHS.items() for sign in signs if normalise(sign) != latin.lower()}

    assert len(unread) <= 8, unread  # of these, what an attack makes of a value is learned
