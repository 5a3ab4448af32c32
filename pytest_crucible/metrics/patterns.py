"""Search with a pattern that a user wrote, for a limited time."""

from __future__ import annotations

import re
import time
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from pytest_crucible.records.errors import SpecError

# Time for one reply: a pattern such as `(a+)+$` can take for ever; then the sample is lost for this metric.
MAX_SEARCH_S = 1.0
_deadline: ContextVar[float | None] = ContextVar("crucible_pattern_deadline", default=None)


@lru_cache(maxsize=256)
def compile_pattern(pattern: str, flags: int = 0) -> Any:
    """Return a pattern of the package `regex`, whose searches can be stopped. Raises SpecError for an invalid one.

    Patterns and flags are those of `re`.
    """
    import regex  # takes longer to import than all metrics

    try:
        re.compile(pattern, flags)
        return regex.compile(pattern, regex.VERSION0 | _flags(flags))
    except (re.error, regex.error) as error:
        raise SpecError(f"the pattern {pattern!r} is not a regular expression: {error}") from error


def start_clock() -> None:
    """Begin the time that the searches in one reply may take together."""
    _deadline.set(time.monotonic() + MAX_SEARCH_S)


def is_found(pattern: str, text: str, flags: int = 0) -> bool:
    """Return True if the pattern matches anywhere in a text. Raises TimeoutError when the reply's time is over."""
    deadline = _deadline.get()
    left = MAX_SEARCH_S if deadline is None else max(1e-3, deadline - time.monotonic())
    try:
        return compile_pattern(pattern, flags).search(text, timeout=left) is not None
    except TimeoutError:
        raise TimeoutError(
            f"the pattern {pattern!r} took more than {MAX_SEARCH_S:g} s on a text of {len(text)} characters: "
            "write it without a repetition inside a repetition"
        ) from None


def _flags(flags: int) -> int:
    """Return the flags of `regex` with the same names: the two modules number some of them differently."""
    import regex

    names = ("ASCII", "IGNORECASE", "LOCALE", "MULTILINE", "DOTALL", "VERBOSE", "UNICODE")
    return sum(int(getattr(regex, name)) for name in names if flags & getattr(re, name))
