"""Duplicates: equal after normalising, or different in at most 5 % of the words."""

from __future__ import annotations

import difflib
import random

import pytest

from pytest_crucible.datasets.duplicates import Duplicate, find_duplicates, is_near


def words(count: int, *, changed: int = 0, start: int = 0) -> str:
    """A text of so many different words, the last of which are others."""
    return " ".join([f"w{number + start}" for number in range(count - changed)] + [f"x{n}" for n in range(changed)])


@pytest.mark.parametrize(
    ("count", "changed", "is_duplicate"),
    [(19, 1, False), (20, 1, True), (20, 2, False), (100, 5, True), (100, 6, False), (39, 1, True), (40, 2, True)],
)
def test_one_word_in_twenty_may_differ(count, changed, is_duplicate):
    found = find_duplicates([(words(count), "yes"), (words(count, changed=changed), "yes")])

    assert found == [None, Duplicate(0, False) if is_duplicate else None]


def test_every_field_has_to_be_near():
    rows = [(words(100), "82"), (words(100, changed=1), "91"), (words(100, changed=1), " 82 ")]

    assert find_duplicates(rows) == [None, None, Duplicate(0, False)]


def test_an_inserted_word_moves_the_others_and_is_one_difference():
    text = words(40)

    assert is_near(text.split(), ["first", *text.split()])
    assert is_near([*text.split()[20:], *text.split()[:20]], text.split()) is False


def test_19_words_are_near_20_and_of_a_chain_the_rows_far_from_the_first_stay():
    assert find_duplicates([(words(20),), (words(19),)])[1] == Duplicate(0, False)
    chain = [(words(40, changed=changed),) for changed in (0, 2, 4)]
    # The second repeats the first; the third differs from the first in four words.
    assert find_duplicates(chain) == [None, Duplicate(0, False), None]
    assert find_duplicates([]) == []


@pytest.mark.parametrize(
    ("vocabulary", "lengths"),
    [(40, (60, 61)), (2, (19, 22)), (4, (37, 43)), (30, (30, 42)), (200, (36, 44)), (60, (95, 105))],
    ids=["long", "two words", "four words", "pairs of rare words", "both kinds of key", "longer"],
)
def test_rare_words_find_what_comparing_all_pairs_finds(vocabulary, lengths):
    draw = random.Random(0)

    def word() -> str:
        return f"w{draw.randrange(vocabulary)}"

    rows = []
    for _ in range(12):
        text = [word() for _ in range(draw.randrange(*lengths))]
        for edits in (0, 1, 2, 3, 5):
            edited = list(text)
            for _ in range(edits):
                place = draw.randrange(len(edited))
                edited[place : place + draw.randrange(2)] = [word()] * draw.randrange(2)
            rows.append((" ".join(edited),))
    draw.shuffle(rows)
    kept: list[tuple[int, list[str]]] = []
    expected = []
    for (text,) in rows:
        near = next((index for index, other in kept if is_near(text.split(), other)), None)
        expected.append(near)
        if near is None:
            kept.append((len(expected) - 1, text.split()))

    assert [duplicate and duplicate.of for duplicate in find_duplicates(rows)] == expected
    assert 0 < sum(of is not None for of in expected) < len(rows)


def test_the_distance_is_the_edit_distance_in_words():
    draw = random.Random(1)
    for _ in range(200):
        first = [draw.choice("ab") for _ in range(20)]
        second = list(first)
        for _ in range(draw.randrange(3)):
            second[draw.randrange(20)] = draw.choice("abc")
        replaced = sum(one != other for one, other in zip(first, second, strict=True))
        if replaced <= 1:
            assert is_near(first, second)
        elif is_near(first, second):
            # Fewer edits than replaced words: one word was moved by an insertion and a deletion, which are two.
            blocks = difflib.SequenceMatcher(None, first, second, autojunk=False).ratio()
            assert blocks >= 0.95
