"""Words that have to follow for a pattern to match, so that most places of a long text need not be tried.

The words are read from the pattern itself, as the standard library parses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

# The only way to read a pattern that the standard library has.
_PARSER: Any = vars(re)["_parser"]
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")

Need = frozenset[str]
"""Beginnings of words, of which one has to follow."""
_Items = Sequence[tuple[Any, Any]]


def read_needs(pattern: str) -> tuple[Need, ...]:
    r"""Return what words each match of a pattern has, in this order. Words at its very start are left out.

    >>> [sorted(need) for need in read_needs(r"\W{1,3}(?:all\W{1,3})?(?:prompts?|rules)\b.{0,9}\bnow")]
    [['prompt', 'rules'], ['now']]
    """
    items = list(_PARSER.parse(pattern))
    needs = list(_read(items, is_apart=False))
    # What is looked ahead for at the end comes after all else.
    if items and str(items[-1][0]) == "ASSERT" and items[-1][1][0] == 1:
        needs += _read(list(items[-1][1][1]), is_apart=_end_apart(items[:-1], False))
    return tuple(needs)


def _read(items: _Items, *, is_apart: bool) -> Iterator[Need]:
    """Yield the needs of a sequence. `is_apart`: a letter that follows would begin a word."""
    for k, item in enumerate(items):
        beginnings = _begin(items[k:]) if is_apart else None
        if beginnings and all(text[0].isalpha() for text in beginnings):
            yield Need(beginnings)
        else:
            yield from _read(_inside(item), is_apart=is_apart)
        is_apart = _leaves_apart(item, is_apart)


def _inside(item: tuple[Any, Any]) -> _Items:
    """Return the sequence that a group or a repeat has to match; of other parts none."""
    name, value = str(item[0]), item[1]
    if name == "SUBPATTERN":
        return list(value[3])
    return list(value[2]) if name in _REPEATS and value[0] else []


def _begin(items: _Items) -> list[str] | None:
    """Return texts of which each match begins with one; None where no letter is certain."""
    beginnings = [""]
    for item in items:
        name, value = str(item[0]), item[1]
        if name == "LITERAL":
            beginnings = [text + chr(value) for text in beginnings]
            continue
        if name == "BRANCH":
            inner = [_begin(list(branch)) for branch in value[1]]
        elif name == "IN" and all(str(kind) == "LITERAL" for kind, _ in value):
            inner = [[chr(code)] for _, code in value]
        else:
            inner = [_begin(_inside(item))] if _inside(item) else [None]
        if None not in inner:
            beginnings = [
                text + more for text, more in product(beginnings, [text for part in inner for text in part or ()])
            ]
        break
    return beginnings if all(beginnings) else None


def _leaves_apart(item: tuple[Any, Any], is_apart: bool) -> bool:
    """Return whether after a part a letter would begin a word."""
    name, value = str(item[0]), item[1]
    if name == "LITERAL":
        return not (chr(value).isalnum() or chr(value) == "_")
    if name == "AT":
        return str(value) == "AT_BOUNDARY" or is_apart
    if name == "IN":
        return [str(code) for _, code in value] == ["CATEGORY_NOT_WORD"]
    if name in ("ASSERT", "ASSERT_NOT"):
        return is_apart
    if name == "BRANCH":
        return all(_end_apart(list(branch), is_apart) for branch in value[1])
    if name in _REPEATS and not value[0]:
        return is_apart and _end_apart(list(value[2]), is_apart)
    return bool(_inside(item)) and _end_apart(_inside(item), is_apart)


def _end_apart(items: _Items, is_apart: bool) -> bool:
    for item in items:
        is_apart = _leaves_apart(item, is_apart)
    return is_apart
