"""Characters of long texts as arrays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.guards.characters import join_code_points, read_code_points


@given(st.text(st.characters(categories=None) | st.sampled_from("\0\ud800\U0010ffff")))
def test_any_text_is_joined_again_from_its_code_points(text):
    assert read_code_points(text).tolist() == list(map(ord, text))
    assert join_code_points(read_code_points(text)) == text
