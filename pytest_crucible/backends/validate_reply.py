"""Validates a backend's Reply before its numbers are stored and scored."""

from __future__ import annotations

import math
from typing import Any

from pytest_crucible.records import Reply
from pytest_crucible.records.errors import BackendError
from pytest_crucible.records.type_names import describe_type

# The largest whole number up to which doubles, as in databases and JSON, are exact.
MOST_TOKENS = 2**53


def validate_reply(reply: Any) -> Reply:
    """Return the reply itself. Raises BackendError if it is not a valid Reply."""
    if not isinstance(reply, Reply):
        raise BackendError(f"the backend returned {describe_type(reply)}: generate() must return a Reply")
    if wrong := find_flaw(reply):
        raise BackendError(f"the backend returned a Reply that {wrong}")
    return reply


def find_flaw(reply: Reply) -> str:
    """Return which field is invalid and what was expected; empty for a valid reply.

    >>> find_flaw(Reply(text="4", output_tokens=-1))
    'has output_tokens -1: expected a whole number from 0, or None'
    """
    for name, fits, expected in _FIELDS:
        if not fits(value := getattr(reply, name)):
            return f"has {name} {value!r:.60}: expected {expected}"
    return ""


def is_count(value: Any) -> bool:
    """Return whether a value is a number of tokens, or None (unknown)."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_TOKENS)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_amount(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and 0 <= value < math.inf)


# A bool is an int in Python and NaN a float: both would pass a plain isinstance.
_KINDS = (
    (("text", "finish", "model"), _is_text, "a text"),
    (("input_tokens", "output_tokens"), is_count, "a whole number from 0, or None"),
    (("latency_s", "first_token_s", "cost_usd"), _is_amount, "a number from 0, or None"),
)
_FIELDS = tuple((name, fits, expected) for names, fits, expected in _KINDS for name in names)
