"""Redaction of what was found."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.detectors.pii import find_pii
from pytest_crucible.detectors.replacements import REDACTIONS, Redactor, RunRedaction, SharedNumbers, merge_spans
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
    assert redacted("hash", run=RunRedaction(b"k")) == redacted("hash", run=RunRedaction(b"k"))


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
    assert redacted("placeholder", "a@b.org", run=RunRedaction(process="gw1")) == "<EMAIL_ADDRESS_gw1_1>"


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
