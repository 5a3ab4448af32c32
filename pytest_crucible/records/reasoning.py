"""Reasoning that a model writes into its reply, before the answer: a `<think>` block."""

from __future__ import annotations

_OPEN, _CLOSE = "<think>", "</think>"


def reasoning_length(text: str) -> int:
    """Return how many leading characters of a reply's text are its `<think>` block.

    A chat template may write the opening tag itself, so that only the closing one is in the reply; and a reply that was cut
    at its length may have no closing tag: then all of it is reasoning.

    >>> reasoning_length("<think>2 + 2</think>4"), reasoning_length("2 + 2</think>4"), reasoning_length("4")
    (20, 13, 0)
    """
    # Most have none, and this is quicker.
    if "think>" not in text:
        return 0
    end = text.find(_CLOSE)
    if end >= 0:
        return end + len(_CLOSE)
    return len(text) if text.lstrip().startswith(_OPEN) else 0


def strip_tags(block: str) -> str:
    """Return what a `<think>` block says.

    >>> strip_tags("<think> 2 + 2 </think>")
    '2 + 2'
    """
    return block.strip().removeprefix(_OPEN).removesuffix(_CLOSE).strip()
