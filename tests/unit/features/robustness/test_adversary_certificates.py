"""Certificates by random deletion, exhaustively over short texts, and the search for the worst text."""

from __future__ import annotations

import asyncio
import itertools
from functools import cache
from random import Random

import pytest
from run_sizes import choose_examples

from pytest_crucible.features.robustness.edits import Source
from pytest_crucible.features.robustness.late_variants import (
    ABSTAINS,
    certified_edits,
    delete_words,
    majority,
    radius,
    search_text,
)
from pytest_crucible.stats import clopper_pearson_bound

WORDS = ("x", "y")


def classify(words):
    """An answer that depends on the words' number and order."""
    return "a" if words.count("x") >= words.count("y") else "b"


@cache
def share(words, noise, answer):
    """The exact share of the deletions of a text that get an answer."""
    total = 0.0
    for remaining in itertools.product((True, False), repeat=len(words)):
        chance = 1.0
        for is_kept in remaining:
            chance *= (1 - noise) if is_kept else noise
        total += chance * (classify(tuple(itertools.compress(words, remaining))) == answer)
    return total


def edit_once(words):
    """Every text that is one word edit away."""
    for at in range(len(words) + 1):
        yield from ((*words[:at], word, *words[at:]) for word in WORDS)
    for at in range(len(words)):
        yield (*words[:at], *words[at + 1 :])
        yield from ((*words[:at], word, *words[at + 1 :]) for word in WORDS)


@pytest.mark.parametrize("noise", [0.7, 0.9])
def test_no_edit_within_the_radius_changes_the_answer(noise):
    """Every text of up to four words, and every text that so many edits lead to."""
    certified = 0
    for length in range(5):
        for words in itertools.product(WORDS, repeat=length):
            answer = max("ab", key=lambda item: share(words, noise, item))
            edits = radius(share(words, noise, answer), noise)
            texts = {words}
            for _ in range(max(edits, 0)):
                texts |= {other for text in texts for other in edit_once(text)}
                certified += 1
            assert all(share(text, noise, answer) >= 0.5 for text in texts)
    assert certified > 3


def test_the_bound_is_that_of_clopper_and_pearson():
    assert (
        certified_edits(1000, 1000, 0.9)
        == radius(clopper_pearson_bound(1000, 1000, alpha=0.001, side="lower"), 0.9)
        == 6
    )
    assert certified_edits(500, 1000, 0.9) == certified_edits(0, 0, 0.9) == ABSTAINS
    assert [certified_edits(hits, 1000, 0.9) for hits in range(0, 1001, 50)] == sorted(
        certified_edits(hits, 1000, 0.9) for hits in range(0, 1001, 50)
    )
    for noise in (0.0, 1.0):
        with pytest.raises(ValueError, match="between 0 and 1"):
            certified_edits(1, 1, noise)


@pytest.mark.slow
def test_certificates_are_false_with_at_most_alpha():
    """A smoothed model whose true share allows r edits is certified more in at most alpha of the cases, even at alpha = .05."""
    draw, alpha, runs = Random(0), 0.05, choose_examples(10_000)
    false = 0
    for _ in range(runs):
        true = draw.choice((0.55, 0.7, 0.9, 0.98))
        hits = sum(draw.random() < true for _ in range(200))
        false += certified_edits(hits, 200, 0.9, alpha=alpha) > radius(true, 0.9)
    assert false / runs <= alpha


def test_words_are_deleted_and_lines_stay():
    text = "one two three\nfour five"

    assert delete_words(text, Random(0), 0.0) == text
    assert delete_words(text, Random(0), 1.0) == "\n"
    remaining = [len(delete_words("w " * 1000, Random(seed), 0.9).split()) for seed in range(20)]
    assert 80 < sum(remaining) / 20 < 120


def test_the_majority_may_be_that_there_is_no_answer():
    assert (majority(["a", "b", "a"]), majority([None, None, "a"]), majority([])) == ("a", None, None)


def search(query, *, queries=30, strength=0.2, worst=0.0, text="the important answer is a large experiment"):
    sent = []

    async def ask(candidate):
        sent.append(candidate)
        return query(candidate)

    result = asyncio.run(
        search_text(Source(text), Random(1), queries=queries, strength=strength, query=ask, worst=worst)
    )
    return result, sent


def test_a_search_keeps_edits_that_do_not_help_the_model_and_ends_at_the_worst():
    result, sent = search(lambda text: -sum(ord(letter) > 127 for letter in text), worst=-4)

    assert sum(ord(letter) > 127 for letter in result) == 4
    assert sent[-1] == result
    assert len(sent) < 30


def test_a_search_begins_again_after_its_edits_and_gives_the_worst_text_that_it_saw():
    scores = {}
    result, sent = search(lambda text: scores.setdefault(text, 1.0 - len(scores) % 7 / 10), strength=0.05, queries=25)

    assert len(sent) == 25
    assert scores[result] == min(scores.values())


def test_a_search_without_a_letter_or_a_score_finds_nothing():
    assert search(lambda text: 1.0, text="12 + 30") == (None, [])
    result, sent = search(lambda text: None)
    assert (result, len(sent)) == (None, 30)
