"""What a model wrote, on a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.report.printable import printable


@given(st.text(st.characters(exclude_categories=())))
def test_printed_text_has_no_control_characters(text):
    printed = printable(text)

    assert all(character.isprintable() or character in "\n\u00a0\u202f\u3000" for character in printed)
    assert printed.encode("utf-8").decode("utf-8") == printed


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=100))
def test_plain_text_stays_as_it_is(text):
    assert printable(text) == text


def test_long_text_is_cut_with_the_number_of_characters():
    assert printable("ab" * 1000, 3) == "aba... (1,997 characters more)"
