"""Versions: what is sent when segments are left out, in the first request and in later ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.explanation.segments import find_finder, split_prompt
from pytest_crucible.features.explanation.versions import VersionEdit
from pytest_crucible.records import ModelCall, Reply
from pytest_crucible.records.errors import BackendError

MESSAGES = [{"role": "system", "content": "Rule."}, {"role": "user", "content": "first\n\nsecond\n\nthird"}]


def version(mask, input=MESSAGES, calls=()):
    return VersionEdit(split_prompt(input, *find_finder("paragraph", ())), mask, None, calls)


def call_with(text):
    return ModelCall("", False, 1, None, "", reply=Reply(text=text))


@pytest.mark.parametrize(
    ("mask", "sent"),
    [
        (0b1111, MESSAGES),
        (0b1110, [MESSAGES[1]]),
        (0b1011, [MESSAGES[0], {"role": "user", "content": "first\n\nthird"}]),
        (0b0111, [MESSAGES[0], {"role": "user", "content": "first\n\nsecond"}]),
        (0b0001, [MESSAGES[0]]),
        (0b0000, [{"role": "user", "content": ""}]),
    ],
)
def test_an_emptied_message_is_removed_and_the_last_one_is_empty(mask, sent):
    assert version(mask)(MESSAGES, {}) == sent


def test_a_text_stays_a_text():
    assert version(0b01, "one\n\ntwo")("one\n\ntwo", {}) == "one"
    assert version(0b00, "one\n\ntwo")("one\n\ntwo", {}) == ""


def test_later_requests_leave_out_the_same_text_and_no_reply_of_the_model():
    calls = []
    edit = version(0b1011, calls=calls)
    edit(MESSAGES, {})
    calls.append(call_with("I read second."))
    later = [
        *MESSAGES,
        {"role": "assistant", "content": "I read second."},
        # Shortened by the test.
        {"role": "assistant", "content": "read second."},
        {"role": "user", "content": "You said: I read second. Is second right?"},
    ]

    assert [message["content"] for message in edit(later, {})] == [
        "Rule.",
        "first\n\nthird",
        "I read second.",
        "read second.",
        "You said: I read second. Is  right?",
    ]


def test_a_text_that_another_segment_has_stays_in_later_requests():
    prompt = "same\n\nother\n\nsame"
    edit = version(0b110, prompt)

    assert edit(prompt, {}) == "other\n\nsame"
    assert edit("again: same", {}) == "again: same"


def test_another_first_request_than_before_is_refused():
    with pytest.raises(BackendError, match="not the same each time"):
        version(0b1111)("something else", {})


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=4), min_size=1, max_size=6), st.integers(0, 63))
def test_the_parts_that_stay_are_sent_in_their_order(parts, mask):
    prompt = "\n\n".join(parts)
    staying = [part for number, part in enumerate(parts) if mask >> number & 1]

    assert version(mask, prompt)(prompt, {}) == "\n\n".join(staying)
