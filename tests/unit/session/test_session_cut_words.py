"""Words that pytest cut are left out of redacted tracebacks."""

from __future__ import annotations

import pytest
from _pytest._io.saferepr import saferepr
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.session.redaction import remove_cut_words


@given(st.integers(80, 140), st.sampled_from(["anna.maria@example.com", "4111 1111 1111 1111", "+49 30 9018 2099"]))
def test_nothing_is_left_of_a_value_that_pytest_cut(before, value):
    text = saferepr(f"{'x' * before} {value} {'y' * 300}")

    left = remove_cut_words(text).replace(value, "")

    assert not set(left) - set("xy '.")


@pytest.mark.parametrize(
    "text", ["", "def f(...):", "tuple[int, ...]", "wait ... now", "no ellipsis, anna@example.com 4111.."]
)
def test_other_texts_stay(text):
    assert remove_cut_words(text) == text
