"""Whether a reply can be meant: backends are written by many, and what one of them says is counted, stored and judged."""

from __future__ import annotations

import math
from typing import Any

from pytest_crucible.errors import BackendError
from pytest_crucible.records import Reply

MOST_TOKENS = 2**53
"""Nobody reads or writes as many, and no database has to hold more."""


def plausible(reply: Any) -> Reply:
    """The reply itself. Raises BackendError for what is none, or has a field that cannot be meant."""
    if not isinstance(reply, Reply):
        raise BackendError(f"the backend answered a {type(reply).__name__}: it must be a Reply")
    if wrong := flaw_of(reply):
        raise BackendError(f"the backend answered a Reply that {wrong}")
    return reply


def flaw_of(reply: Reply) -> str:
    """What is wrong with a field, and what is wanted; empty where nothing is.

    >>> flaw_of(Reply(text="4", output_tokens=-1))
    'has output_tokens -1: wanted a whole number from 0, or None'
    """
    for name, fits, wanted in _FIELDS:
        if not fits(value := getattr(reply, name)):
            return f"has {name} {value!r:.60}: wanted {wanted}"
    return ""


def is_count(value: Any) -> bool:
    """A number of tokens, or unknown."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_TOKENS)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_amount(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and 0 <= value < math.inf)


_KINDS = (
    (("text", "finish", "model"), _is_text, "a text"),
    (("input_tokens", "output_tokens"), is_count, "a whole number from 0, or None"),
    (("latency_s", "first_token_s", "cost_usd"), _is_amount, "a number from 0, or None"),
)
_FIELDS = tuple((name, fits, wanted) for names, fits, wanted in _KINDS for name in names)
