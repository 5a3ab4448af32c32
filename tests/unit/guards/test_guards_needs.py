"""What patterns need, read from the patterns."""

from __future__ import annotations

import pytest

from pytest_crucible.guards.needs import read_needs
from pytest_crucible.guards.rules import load_rules


@pytest.mark.parametrize(
    ("pattern", "needs"),
    [
        (r"e\W{1,3}now", [{"now"}]),
        (r"(?:s|ing)?\W{1,3}(?:me|us)\W{1,3}that\b", [{"me", "us"}, {"that"}]),
        (
            r"\W{1,3}(?:(?:all|of)\W{1,3}){0,4}(?:(?:old|own)\W{1,3}){1,3}(?:rules?|polic(?:y|ies))",
            [{"old", "own"}, {"rule", "policies", "policy"}],
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
    assert list(map(set, read_needs(pattern))) == needs


def test_most_rules_need_words():
    rules = load_rules().rules

    assert sum(bool(rule.needs) for rule in rules) > len(rules) / 2
