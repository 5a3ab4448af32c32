"""Words of long texts and their flags, as reading the words one by one gives them."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.detectors.characters import join_code_points, read_code_points
from pytest_crucible.detectors.words import TextWords, Vocabulary

VOCABULARY = Vocabulary(
    {1: ["id", "telefonnummer", "rechnung"], 2: ["id", "rechnungsnummer", "telephone", "telephones"]}
)
FLAGS = {"id": 3, "telefonnummer": 1, "rechnung": 1, "rechnungsnummer": 2, "telephone": 2, "telephones": 2}
PARTS = [
    *FLAGS,
    "ID",
    "rechnungs",
    "x",
    "é",
    "\u0431",
    "1",
    "²",
    "_",
    " ",
    "\n",
    "\u212a",
    "\u00a0",
    ".",
    "aaaaaaaaaaaaaaaaaaaa",
]


@settings(max_examples=choose_examples(200))
@given(st.lists(st.sampled_from(PARTS), max_size=9).map("".join))
def test_words_have_the_flags_of_the_vocabulary(text):
    words = TextWords(text, VOCABULARY)
    read = [(match.start(), match.end(), FLAGS.get(match[0], 0)) for match in re.finditer(r"[^\W\d_]+", text.lower())]

    # The last is behind the text.
    assert [*zip(words.starts, words.ends, words.flags, strict=True)][:-1] == read
    assert words.starts[-1] > len(text)
    assert words.find(1).tolist() == [start for start, _, flags in read if flags & 1]


@given(st.text(st.characters(categories=None) | st.sampled_from("\0\ud800\U0010ffff")))
def test_any_text_is_joined_again_from_its_code_points(text):
    assert read_code_points(text).tolist() == list(map(ord, text))
    assert join_code_points(read_code_points(text)) == text
