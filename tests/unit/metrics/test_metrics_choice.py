"""The letter that a reply chooses: a table of forms of replies, and what a reader reads."""

from __future__ import annotations

import pytest
from json_tables import read_table

from pytest_crucible import Reply, Sample
from pytest_crucible.metrics import choice_given, choice_match, choice_of

ANIMALS = ["a cat", "a dog", "a sea lion", "a lion"]


@pytest.mark.parametrize("row", read_table("replies/choices"), ids=lambda row: row["text"][:40])
def test_a_reply_is_read_as_a_reader_would(row):
    assert choice_of(row["text"]) == row["letter"]
    assert choice_given(Reply(text=row["text"]), Sample(id="1", input="")) is (row["letter"] is not None)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Answer: A dog", "B"),
        ("a dog", "B"),
        ("It is a dog.", "B"),
        ("**A dog**", "B"),
        ("It is a sea lion.", "C"),
        ("It is a lion.", "D"),
        ("It is not a cat.", None),
        ("A cat or a dog", None),
        ("A horse", None),
        ("Answer: B", "B"),
        ("The answer is A, although it looks like a dog.", "A"),
        ("A or B", None),
    ],
)
def test_the_text_of_an_option_names_it(text, letter):
    assert choice_of(text, options=ANIMALS) == letter


@pytest.mark.parametrize(
    "metadata", [{"choices": ANIMALS}, {"options": ANIMALS}, {"choices": dict(zip("ABCD", ANIMALS, strict=True))}]
)
def test_options_are_those_of_the_sample(metadata):
    sample = Sample(id="1", input="Which one barks?", expected="B", metadata=metadata)

    assert choice_match(Reply(text="It is a dog."), sample) is True
    assert choice_given(Reply(text="It is a dog."), sample) is True
    assert choice_given(Reply(text="It is a horse."), sample) is False


def test_parts_of_numbers_are_not_options():
    assert choice_of("It is 42.", options=["4", "2", "42", "4.2"]) == "C"


@pytest.mark.parametrize("letters", ["ABCDEFGHIJ", "1234"])
def test_other_letters_can_be_chosen(letters):
    assert choice_of(f"The answer is ({letters[-1]}).", letters) == letters[-1]
    assert choice_of("I think that I know.", letters) is None


def test_a_long_reply_is_read_at_its_ends():
    assert choice_of("Let me think. " * 10_000 + "The answer is C.") == "C"
    assert choice_of("Answer: C\n\n" + "I have thought. " * 10_000) == "C"
