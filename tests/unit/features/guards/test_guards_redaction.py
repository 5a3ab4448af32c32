"""Replacements of findings, and values that are found again."""

from __future__ import annotations

import base64
import codecs
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.detectors.pii import find_pii
from pytest_crucible.features.guards.forms import read_forms
from pytest_crucible.features.guards.guard import REDACTIONS
from pytest_crucible.features.guards.normalise import normalise
from pytest_crucible.features.guards.redaction import (
    FEW,
    FoundValues,
    Redactor,
    RunRedaction,
    SharedNumbers,
    SharedValues,
    merge_spans,
)
from pytest_crucible.features.robustness.characters import HOMOGLYPHS
from pytest_crucible.records.outcomes import Span

TEXT = "Grüße an jürgen@example.com und anna@example.com, jürgen@example.com"


def redact_text(how, text=TEXT, **facts):
    return Redactor(how, **facts)(text, find_pii(text))


def test_equal_values_have_equal_placeholders():
    assert redact_text("placeholder") == "Grüße an <EMAIL_ADDRESS_1> und <EMAIL_ADDRESS_2>, <EMAIL_ADDRESS_1>"


def test_a_mask_keeps_the_length_and_a_part_keeps_the_ends():
    assert redact_text("mask") == f"Grüße an {'*' * 18} und {'*' * 16}, {'*' * 18}"
    assert redact_text("partial") == f"Grüße an j{'*' * 13}.com und a{'*' * 11}.com, j{'*' * 13}.com"
    assert redact_text("partial", "call 5550123") == "call *******"


def test_a_hash_cannot_be_joined_with_that_of_another_run():
    item, other = Redactor("hash"), Redactor("hash")
    first, second = (redactor("a@example.com", find_pii("a@example.com")) for redactor in (item, other))

    assert first.startswith("<EMAIL_ADDRESS:")
    assert first == item("a@example.com", find_pii("a@example.com"))
    assert first != second
    assert redact_text("hash", run=RunRedaction(b"k")) == redact_text("hash", run=RunRedaction(b"k"))


def test_a_hash_has_no_digits_that_could_be_a_number():
    redactor = Redactor("hash", RunRedaction(b"k"))
    texts = [f"{number}@example.com" for number in range(20)]

    hashes = [redactor(text, find_pii(text)).partition(":")[2] for text in texts]

    assert len(set(hashes)) == 20
    assert not any(character.isdigit() for character in "".join(hashes))


def test_numbers_go_on_from_text_to_text():
    redactor = Redactor("placeholder")

    assert [redactor(text, find_pii(text)) for text in ("a@b.org", "c@d.org", "a@b.org")] == [
        "<EMAIL_ADDRESS_1>", "<EMAIL_ADDRESS_2>", "<EMAIL_ADDRESS_1>",
    ]  # fmt: skip


def test_a_worker_on_another_machine_is_part_of_its_placeholders():
    assert redact_text("placeholder", "a@b.org", run=RunRedaction(process="gw1")) == "<EMAIL_ADDRESS_gw1_1>"


def count_values(folder, first):
    numbers = SharedNumbers(folder, b"k")
    return {f"v{k}": numbers("URL", f"v{k}") for k in (*range(first, 60), *range(first))}


def test_processes_that_share_a_folder_count_together(tmp_path):
    with ProcessPoolExecutor(4) as pool:
        counted = list(pool.map(count_values, [tmp_path] * 4, [0, 15, 30, 45]))

    assert counted[0] == counted[1] == counted[2] == counted[3]
    assert sorted(counted[0].values()) == list(range(1, 61))
    assert SharedNumbers(tmp_path, b"k")("PHONE_NUMBER", "v1") == 1
    assert not any("v1" in path.read_text() for path in tmp_path.iterdir())


SPANS = st.builds(
    lambda kind, start, size: Span(kind, start, start + size),
    st.sampled_from("AB"),
    st.integers(0, 20),
    st.integers(1, 9),
)


@given(st.lists(SPANS, max_size=6))
def test_merged_spans_cover_the_same_characters_apart_from_each_other(spans):
    merged = merge_spans(spans)

    assert {k for span in merged for k in range(span.start, span.end)} == {
        k for span in spans for k in range(span.start, span.end)
    }
    assert all(item.end <= other.start for item, other in pairwise(merged))


@pytest.mark.parametrize("how", REDACTIONS)
@given(
    st.lists(
        st.sampled_from([" ", "a@example.com", "4111 1111 1111 1111", "http://192.0.2.17/x", "ü", "call 415-555-0123"]),
        max_size=6,
    ).map(" ".join)
)
def test_redaction_leaves_nothing_of_a_finding(how, text):
    values = {text[span.start : span.end] for span in find_pii(text)}
    left = Redactor(how)(text, find_pii(text))

    assert not any(value in left for value in values)
    assert find_pii(left) == ()


VALUE = "tr0ub4dor3xyz"


def learn_values(*values: str) -> FoundValues:
    result = FoundValues(normalise, read_forms)
    for value in values:
        result.learn(f"it is {value}", [Span("PASSWORD", 6, 6 + len(value))])
    return result


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

    [span] = learn_values(VALUE, *others).find(text)
    assert text[span.start : span.end].strip("\u200b\u00ad") == disguised.strip().strip("\u200b\u00ad")


@pytest.mark.parametrize("text", ["", "a tr0ub4dor", "4dor3 xyz tr0u", "unrelated words " * 90])
def test_nothing_else_is_found(text):
    assert learn_values(VALUE).find(text) == []


@pytest.mark.parametrize(
    ("value", "text"), [("anna", "hannah"), ("123456", "0123456789"), ("abcd", "ab cd"), ("an", "an")]
)
def test_a_short_value_must_be_a_word_of_its_own(value, text):
    assert learn_values(value).find(text) == []


@pytest.mark.parametrize(
    "encode", [lambda text: base64.b64encode(text.encode()).decode(), lambda text: codecs.encode(text, "rot13")]
)
def test_a_text_with_an_encoded_value_is_hidden_whole(encode):
    text = encode(f"the secret is {VALUE} and nothing else")

    assert learn_values(VALUE).find(text) == [Span("PASSWORD", 0, len(text))]


@pytest.mark.parametrize(
    "changed", ["tr0ub4dr3xyz", "tr0bu4dor3xyz", "tr0ubb4dor3xyz", "tr9ub4dor3xy", "tr0ub 4dr3xyz"]
)
def test_an_attacked_value_is_found(changed):
    result = learn_values(VALUE)
    result.learn_changed(f"log in with {VALUE} today", f"log in wiht {changed}, today")

    assert [span.type for span in result.find(f"you said {changed}!")] == ["PASSWORD"]
    assert result.find("log in wiht today") == []


def test_values_of_other_processes_are_found_and_no_file_shows_them(tmp_path):
    item, other = (FoundValues(normalise, read_forms, SharedValues(tmp_path, b"key")) for _ in range(2))
    item.learn(VALUE, [Span("PASSWORD", 0, len(VALUE))])

    assert other.find(f"is {VALUE}") == [Span("PASSWORD", 3, 3 + len(VALUE))]
    assert all(VALUE.encode() not in file.read_bytes() for file in tmp_path.iterdir())


def test_every_look_alike_of_the_attacks_is_read():
    unread = {sign for latin, signs in HOMOGLYPHS.items() for sign in signs if normalise(sign) != latin.lower()}

    assert len(unread) <= 8, unread  # of these, what an attack makes of a value is learned
