"""Redaction of what was found."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.detectors.pii import find_pii
from pytest_crucible.detectors.replacements import REDACTIONS, Redactor, merge_spans
from pytest_crucible.records.detections import Span

TEXT = "Grüße an jürgen@example.com und anna@example.com, jürgen@example.com"


def redacted(how, text=TEXT, **facts):
    return Redactor(how, **facts)(text, find_pii(text))


def test_equal_values_have_equal_placeholders():
    assert redacted("placeholder") == "Grüße an <EMAIL_ADDRESS_1> und <EMAIL_ADDRESS_2>, <EMAIL_ADDRESS_1>"


def test_a_mask_keeps_the_length_and_a_part_keeps_the_ends():
    assert redacted("mask") == f"Grüße an {'*' * 18} und {'*' * 16}, {'*' * 18}"
    assert redacted("partial") == f"Grüße an j{'*' * 13}.com und a{'*' * 11}.com, j{'*' * 13}.com"
    assert redacted("partial", "call 5550123") == "call *******"


def test_a_hash_cannot_be_joined_with_that_of_another_run():
    one, other = Redactor("hash"), Redactor("hash")
    first, second = (redactor("a@example.com", find_pii("a@example.com")) for redactor in (one, other))

    assert first.startswith("<EMAIL_ADDRESS:")
    assert first == one("a@example.com", find_pii("a@example.com"))
    assert first != second
    assert redacted("hash", key=b"k") == redacted("hash", key=b"k")


def test_numbers_go_on_from_text_to_text():
    redactor = Redactor("placeholder")

    assert [redactor(text, find_pii(text)) for text in ("a@b.org", "c@d.org", "a@b.org")] == [
        "<EMAIL_ADDRESS_1>", "<EMAIL_ADDRESS_2>", "<EMAIL_ADDRESS_1>",
    ]  # fmt: skip


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
    assert all(one.end <= other.start for one, other in pairwise(merged))


@pytest.mark.parametrize("how", REDACTIONS)
@given(
    st.lists(
        st.sampled_from([" ", "a@example.com", "4111 1111 1111 1111", "http://192.0.2.17/x", "ü", "call 415-555-0123"]),
        max_size=6,
    ).map(" ".join)
)
def test_nothing_is_left_of_what_was_found(how, text):
    values = {text[span.start : span.end] for span in find_pii(text)}
    left = Redactor(how)(text, find_pii(text))

    assert not any(value in left for value in values)
    assert find_pii(left) == ()
