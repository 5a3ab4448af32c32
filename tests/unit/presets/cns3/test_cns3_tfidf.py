"""TF-IDF cosine: the laws of a cosine, and scikit-learn's weights."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.presets.cns3.judgement import tfidf_cosine

texts = st.lists(st.sampled_from(["tea", "Tea", "colds", "the", "flu"]), max_size=6).map(" ".join)


@given(texts, texts, st.lists(texts, max_size=3))
def test_it_is_a_cosine(one, other, corpus):
    found = tfidf_cosine(one, other, corpus)

    assert 0 <= found <= 1
    assert found == pytest.approx(tfidf_cosine(other, one, corpus))
    assert tfidf_cosine(one, one.upper(), corpus) == pytest.approx(1.0 if one else 0.0)


def test_a_word_that_is_everywhere_weighs_less():
    rare, common = math.log(4 / 2) + 1, math.log(4 / 4) + 1  # three texts: "tea" in each, the others in one
    expected = common**2 / (math.hypot(common, rare) ** 2)

    assert tfidf_cosine("tea shortens", "tea helps", ["tea"]) == pytest.approx(expected)


def test_a_text_without_words_is_like_nothing():
    assert tfidf_cosine("?", "tea", []) == 0.0
