"""Words that are spelled letter by letter, or written without blanks between them, as words of the rules."""

from __future__ import annotations

import functools
import re

# Letters with one sign, or two, between them, always the same.
_SPELLED = re.compile(r"(?<!\w)(?:\w([^\w]{1,2})\w(?:\1\w)+)(?!\w)")
# A shorter word is hardly two words of a rule.
_SHORTEST = 6
_LONG_WORD = re.compile(rf"[^\W\d_]{{{_SHORTEST},}}")
# What follows is not read: reading takes time in proportion to the length and to that of the longest word.
_MOST_LETTERS = 20_000
# Share of the letters that have to be of known words: `something` and `information` begin with words of rules, too, but few words
# have twelve letters.
_KNOWN_OF_SHORT, _KNOWN_OF_LONG, _LONG, _FEW_LETTERS = 0.99, 0.4, 12, 2
# Words between those of rules, which would be taken for parts of them.
_FUNCTION_WORDS = frozenset(
    (
        "and", "the", "of", "to", "in", "is", "that", "it", "for", "you", "with", "this", "have", "then", "there", "about", "would",
        "und", "der", "die", "das", "ist", "nicht", "ein", "eine", "einen", "einem", "zu", "zur", "zum", "den", "dem", "von", "mit",
        "sich", "auf", "fur", "wird", "sagen", "schreiben", "gesagte", "gesagt", "man",
    )
)  # fmt: skip
# Costs: a known word, other letters, and each of these. Two short words within other letters cost more than the letters.
_OF_WORD, _OF_OTHER, _OF_LETTER, _NEVER = 1.9, 1.0, 1.0, float("inf")


def add_function_words(words: frozenset[str]) -> frozenset[str]:
    """Return the words of rules and the most frequent others, for `part_words`."""
    return words | _FUNCTION_WORDS


def part_words(text: str, words: frozenset[str]) -> str:
    """Return a text with spelled words joined, and with words that consist of known ones parted.

    >>> part_words("i,g,n,o,r,e previousrules", frozenset(("ignore", "previous", "rules")))
    'ignore previous rules'
    """
    joined = _SPELLED.sub(lambda match: match[0][:: 1 + len(match[1])], text)
    return _LONG_WORD.sub(lambda match: _part(match[0], words), joined)


@functools.lru_cache(maxsize=4096)
def _part(text: str, words: frozenset[str]) -> str:
    """Return the cheapest way to read letters as known words and letters between them, or the text itself without two words."""
    if text in words:
        return text
    letters, rest = text[:_MOST_LETTERS], text[_MOST_LETTERS:]
    parts = _find_cheapest(letters, words)
    known = [part for part in parts if part in words]
    least = _KNOWN_OF_LONG if len(letters) >= _LONG else _KNOWN_OF_SHORT
    are_words = sum(len(part) > _FEW_LETTERS for part in known) > 1 and len("".join(known)) >= least * len(letters)
    return f"{' '.join(parts)}{rest}" if are_words else text


def _find_cheapest(letters: str, words: frozenset[str]) -> list[str]:
    """Return the parts of the cheapest reading (Viterbi 1967): known words, and what is between them."""
    beginnings = _list_beginnings(words)
    count = len(letters)
    # For each end: the cost, and where the last part begins, if that is a known word and if it is not.
    known = [(0.0, 0)] + [(_NEVER, 0)] * count
    other = [(_OF_OTHER, 0)] * (count + 1)
    for start in range(count):
        cost = min(known[start][0], other[start][0]) + _OF_WORD
        end = start + 1
        while end <= count and (part := letters[start:end]) in beginnings:
            if cost < known[end][0] and part in words:
                known[end] = (cost, start)
            end += 1
        goes_on, begins = other[start][0], known[start][0] + _OF_OTHER
        first = other[start][1] if goes_on <= begins else start
        other[start + 1] = (min(goes_on, begins) + _OF_LETTER, first)
    parts, end = [], count
    while end:
        start = min(known[end], other[end])[1]
        parts.append(letters[start:end])
        end = start
    return parts[::-1]


@functools.lru_cache(maxsize=4)
def _list_beginnings(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word[:end] for word in words for end in range(1, len(word) + 1))
