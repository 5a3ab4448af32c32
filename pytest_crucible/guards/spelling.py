"""Words that are spelled letter by letter, or written without blanks between them, as words of the rules."""

from __future__ import annotations

import functools
import re

# Letters with one sign, or two, between them, always the same.
_SPELLED = re.compile(r"(?<!\w)(?:\w([^\w]{1,2})\w(?:\1\w)+)(?!\w)")
# A shorter word is hardly two words of a rule.
_SHORTEST = 9
_LONG_WORD = re.compile(rf"[^\W\d_]{{{_SHORTEST},}}")
# What follows is not read: reading takes time in proportion to the length and to that of the longest word.
_MOST_LETTERS = 20_000
_KNOWN_SHARE = 0.7
# Costs: a known word, and each letter that is in none.
_OF_WORD, _OF_LETTER = 1.0, 1.5


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
    steps = _find_cheapest(letters, words)
    parts: list[str] = []
    end, was_known = len(letters), True
    while end:
        start = end - abs(steps[end])
        is_known = steps[end] > 0
        if is_known or was_known:
            parts.append(letters[start:end])
        else:
            parts[-1] = letters[start:end] + parts[-1]
        end, was_known = start, is_known
    known = [part for part in parts if part in words]
    # `something` and `information` begin with words of rules, too.
    are_words = sum(len(part) > 2 for part in known) > 1 and len("".join(known)) >= _KNOWN_SHARE * len(letters)
    return f"{' '.join(reversed(parts))}{rest}" if are_words else text


def _find_cheapest(letters: str, words: frozenset[str]) -> list[int]:
    """Return, for each end of a part, its length: negative for a letter that is in no word."""
    longest = max(map(len, words))
    costs, steps = [0.0], [0]
    for end in range(1, len(letters) + 1):
        cost, step = costs[end - 1] + _OF_LETTER, -1
        for length in range(1, min(longest, end) + 1):
            if costs[end - length] + _OF_WORD < cost and letters[end - length : end] in words:
                cost, step = costs[end - length] + _OF_WORD, length
        costs.append(cost)
        steps.append(step)
    return steps
