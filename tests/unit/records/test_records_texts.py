"""Durations, and the reasoning in replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import Reply
from pytest_crucible.records.outcomes import answer_text, fold_reasoning, reasoning_length, reasoning_text
from pytest_crucible.records.settings import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        (" 30 min ", 1800),
        ("30 minutes", 1800),
        ("2h", 7200),
        ("2 hours", 7200),
        ("1h30m", 5400),
        ("1 h 30 min", 5400),
        ("1d", 86_400),
        ("2m59.56s", 179.56),
        ("17ms", 0.017),
        ("0s", 0),
    ],
)
def test_a_duration_is_read(text, seconds):
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", " ", "soon", "-3", "1e3", "3 parsecs", "min", "1m 30", "inf", "nan", "½ h"])
def test_anything_else_is_none(text):
    assert seconds_of(text) is None


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_parts_add_up(hours, minutes, seconds):
    assert seconds_of(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


FENCED = "Write it so:\n```\nprompt += '</think>'\n```\nand send it."


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>3, no: 4</think>4", "4"),
        ("\n  <think>\n3, no: 4\n</think>\n\n4\n", "4\n"),
        ("<think></think>4", "4"),
        ("<think>a</think>\n<think>b</think>\n4", "4"),
        # The template of the chat has opened the block.
        ("3, no: 4\n</think>\n\n4", "4"),
        # Cut before an answer.
        ("<think>3, no", ""),
        ("<think>3</think>", ""),
        # Tags that the answer is about.
        ("4", "4"),
        ("", ""),
        ("It begins with <think> and ends with </think>.", "It begins with <think> and ends with </think>."),
        ("```xml\n<think>3</think>\n```\n4", "```xml\n<think>3</think>\n```\n4"),
        ("Close it with `</think>`.", "Close it with `</think>`."),
        (FENCED, FENCED),
        ("Answer: 4\n<think>was that right?</think>", "Answer: 4\n<think>was that right?</think>"),
        ("I think> 4", "I think> 4"),
    ],
)
def test_only_what_a_reply_begins_with_is_reasoning(text, answer):
    assert answer_text(text) == answer
    assert Reply(text=text).answer == answer


def test_a_code_block_inside_the_reasoning_does_not_hide_its_end():
    assert answer_text("<think>```python\nx</think>4") == "4"


@given(st.lists(st.sampled_from(["<think>", "</think>", " ", "\n", "a", "`", "```"]), max_size=12).map("".join))
def test_reasoning_and_answer_are_the_whole_text(text):
    length = reasoning_length(text)

    assert 0 <= length <= len(text)
    assert answer_text(text) in text
    assert answer_text(text) == (text[length:].lstrip() if length else text)


def test_the_reasoning_has_no_tags():
    text = "<think>\nfirst\n</think>\n<think>second</think>4"

    assert reasoning_text(text, reasoning_length(text)) == "first\n\nsecond"


def test_a_report_gives_its_length():
    assert fold_reasoning("<think>2 + 2</think>4") == "(reasoning: 5 characters)\n4"
    assert fold_reasoning("4") == "4"
