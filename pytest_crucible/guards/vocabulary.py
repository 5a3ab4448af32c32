"""The words that a pattern may match, read from the pattern as the standard library parses it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

# The only way to read a pattern that the standard library has.
_PARSER: Any = vars(re)["_parser"]
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
# Stands for what is in no word of the vocabulary: signs, blanks and any letters.
_BREAK = "\0"

_Items = Sequence[tuple[Any, Any]]


def list_words(starts: Sequence[str], then: str) -> frozenset[str]:
    """Return the words that a pattern spells out, behind literals that it may begin with.

    >>> sorted(list_words(["ignor"], r"(?:e|ing)?\\W{1,3}(?:all\\W{1,3})?rules?"))
    ['all', 'ignor', 'ignore', 'ignoring', 'rule', 'rules']
    """
    words: set[str] = set()
    ends = _read(_PARSER.parse(then), list(starts), words)
    for text in ends:
        words.update(_split(text))
    return frozenset(words)


def _read(items: _Items, begun: list[str], words: set[str]) -> list[str]:
    """Return the texts that a sequence may leave unfinished; finished words are added to the set."""
    for item in items:
        texts = [text + more for text, more in product(begun, _read_part(item, words))]
        if any(_BREAK in text for text in texts):
            words.update(word for text in texts for word in _split(text.rpartition(_BREAK)[0]))
            # Behind a break only what comes after it goes on.
            texts = [_BREAK + text.rpartition(_BREAK)[2] if _BREAK in text else text for text in texts]
        begun = list(dict.fromkeys(texts))
    return begun


def _read_part(item: tuple[Any, Any], words: set[str]) -> list[str]:
    name, value = str(item[0]), item[1]
    if name == "LITERAL":
        return [chr(value)]
    if name == "BRANCH":
        return [text for branch in value[1] for text in _read(branch, [""], words)]
    if name == "SUBPATTERN":
        return _read(value[3], [""], words)
    if name == "IN" and all(str(kind) == "LITERAL" for kind, _ in value):
        return [chr(code) for _, code in value]
    if name in _REPEATS:
        return [*([] if value[0] else [""]), *_read(value[2], [""], words)]
    if name in ("ASSERT", "ASSERT_NOT"):
        _read(value[1], [_BREAK], words)
    return [_BREAK]


def _split(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text)
