"""Reasoning that a model writes into its reply, before the answer: a `<think>` block."""

from __future__ import annotations

import re

from pytest_crucible.stats.number_format import quantity

_OPEN, _CLOSE = "<think>", "</think>"
_OPENING = re.compile(rf"\s*{_OPEN}")
_FENCE = "```"
# A tag between these is quoted: the reply is about the tag.
_QUOTES = "`\"'"


def reasoning_length(text: str) -> int:
    """Return how many leading characters of a reply's text are its `<think>` blocks.

    Only a block at the beginning counts: a later tag, or one in a code block, is part of the answer. A chat template may
    write the opening tag itself, so that only the closing one is in the reply; and a reply that was cut at its length may have
    no closing tag: then all of it is reasoning.

    >>> reasoning_length("<think>2 + 2</think>4"), reasoning_length("2 + 2</think>4"), reasoning_length("4")
    (20, 13, 0)
    """
    # Most have none, and this is quicker.
    if "think>" not in text:
        return 0
    end = 0
    while _OPENING.match(text, end):
        close = text.find(_CLOSE, end)
        if close < 0:
            return len(text)
        end = close + len(_CLOSE)
    return end or _length_without_opening(text)


def answer_text(text: str) -> str:
    """Return a reply's text without its reasoning; a reply that is all reasoning has an empty answer.

    >>> answer_text("<think>It is 3, no, 4.</think>\\n4"), answer_text("<think>It is 3, no")
    ('4', '')
    """
    length = reasoning_length(text)
    return text[length:].lstrip() if length else text


def reasoning_text(text: str, length: int) -> str:
    """Return the reasoning in the leading characters of a text, without its tags.

    >>> reasoning_text("<think> 2 + 2 </think>4", 22)
    '2 + 2'
    """
    blocks = re.split(f"{_OPEN}|{_CLOSE}", text[:length])
    return "\n\n".join(stripped for block in blocks if (stripped := block.strip()))


def fold_reasoning(text: str) -> str:
    """Return a text with its reasoning replaced by a line that gives its length, for reports.

    >>> print(fold_reasoning("<think>2 + 2</think>4"))
    (reasoning: 5 characters)
    4
    """
    length = reasoning_length(text)
    if not length:
        return text
    count = quantity(len(reasoning_text(text, length)), "character")
    return f"(reasoning: {count})\n{text[length:].lstrip()}"


def _length_without_opening(text: str) -> int:
    """Return the end of the first closing tag that has no opening tag before it and is not quoted; 0 without one."""
    close = text.find(_CLOSE)
    before, after = text[:close], text[close + len(_CLOSE) :]
    if close < 0 or _OPEN in before or before.count(_FENCE) % 2:
        return 0
    is_quoted = before[-1:] and before[-1] in _QUOTES and after[:1] == before[-1]
    return 0 if is_quoted else close + len(_CLOSE)
