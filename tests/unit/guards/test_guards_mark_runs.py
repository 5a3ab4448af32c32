"""Runs of combining marks are broken, so that normalising them takes time in proportion to the text."""

from __future__ import annotations

import unicodedata
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.guards import characters
from pytest_crucible.guards.characters import break_mark_runs
from pytest_crucible.guards.normalise import normalise

MARKS = "\u0301\u0323\u05b0\u0308"


def longest_run(text):
    runs = [len(list(run)) for is_mark, run in groupby(text, key=lambda c: unicodedata.combining(c) > 0) if is_mark]
    return max(runs, default=0)


@settings(max_examples=choose_examples(100))
@given(
    st.lists(st.sampled_from(["a", " ", "!", "é", *MARKS, "\u0301\u0323" * 20, "\u05b0" * 31]), max_size=12).map(
        "".join
    )
)
def test_no_run_has_more_than_thirty_marks(text):
    broken = break_mark_runs(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(characters, "LONG", 0)

        assert break_mark_runs(text) == broken
    assert longest_run(broken) <= 30
    assert broken.replace("\u034f", "") == text
    assert longest_run(text) > 30 or broken == text


def test_words_with_many_marks_are_read():
    marks = MARKS[:2] * 40

    assert normalise("".join(f"{letter}{marks}" for letter in "ignore")) == "ignore"
    assert normalise(f"u{marks}\u0308ber") == "über"
