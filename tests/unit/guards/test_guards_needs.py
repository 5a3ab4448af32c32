"""What patterns need, read from the patterns."""

from __future__ import annotations

import pytest

from pytest_crucible.guards.patterns import read_needs
from pytest_crucible.guards.rules import load_rules


@pytest.mark.parametrize(
    ("pattern", "needs"),
    [
        (r"e\W{1,3}now", [{"now"}]),
        (r"(?:s|ing)?\W{1,3}(?:me|us)\W{1,3}that\b", [{"me ", "us "}, {"that "}]),
        (r"\W(?:tasks?|do|free of )\b", [{"task", "do ", "free of "}]),
        (r"\W(?:i\b|we|(?:do|be){1,2})\b", [{"i ", "we ", "do", "be"}]),
        (
            r"\W{1,3}(?:(?:all|of)\W{1,3}){0,4}(?:(?:old|own)\W{1,3}){1,3}(?:rules?|polic(?:y|ies))",
            [{"old ", "own "}, {"rule", "policies", "policy"}],
        ),
        (r"\b[^\n]{0,60}?\b(?:you|his)", [{"you", "his"}]),
        (r"\b(?=\W{1,3}now)", [{"now"}]),
        # What is looked ahead for does not come before what follows; an end of a word is not a word.
        (r"\W(?=.*\bnow)you", [{"you"}]),
        (r"\W(?:\w+ed|now)", []),
        (r"\w{0,5}(?:you|they)", []),
        (r"\W{0,3}you", []),
        (r"\W(?:now\W)?", []),
        (r"\W(?!now)", []),
        ("", []),
    ],
)  # fmt: skip
def test_words_that_have_to_follow_are_needed(pattern, needs):
    assert [set(need.words) for need in read_needs(pattern)] == needs


@pytest.mark.parametrize(
    ("pattern", "within"),
    [
        (r"s?\W{1,3}now", [4]),
        (r"\b[^\n]{0,60}?\b(?:now|next)\W{1,3}(?:\w{1,24}\W{1,3}){0,6}?(?:tell|say)\b", [60, 60 + 4 + 3 + 6 * 27]),
        (r"\W(?:(?:old|own)\W{1,3}){1,3}rule", [1, 1 + 3 * 6]),
        (r"\W{1,2}(?=\W{1,3}now)", [5]),
    ],
)  # fmt: skip
def test_a_word_follows_within_what_the_pattern_may_read_before_it(pattern, within):
    assert [need.within for need in read_needs(pattern)] == within


def test_most_rules_need_words():
    rules = load_rules().rules

    assert sum(bool(rule.needs) for rule in rules) > len(rules) / 2
