"""Regular expressions of the user's, under a time limit: a pattern may take years on a text of fifty characters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import regex

from pytest_crucible.records.errors import SpecError

PATTERN_TIMEOUT_S = 1.0
"""For one text; a million characters take milliseconds with most patterns."""


class UserPattern:
    """A regular expression of the user's, as `re` reads it, under a time limit for each text."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        ascii_only = regex.ASCII if pattern.flags & re.ASCII else 0
        # All other flags have the same numbers in both libraries.
        self._pattern = regex.compile(pattern.pattern, (pattern.flags & ~re.ASCII) | ascii_only)

    def search(self, text: str) -> bool:
        """Return whether the pattern is found. Raises SpecError after the time limit."""
        return self._run(self._pattern.search, text)

    def fullmatch(self, text: str) -> bool:
        """Return whether the pattern matches the whole text. Raises SpecError after the time limit."""
        return self._run(self._pattern.fullmatch, text)

    def _run(self, method: Callable[..., Any], text: str) -> bool:
        try:
            return method(text, timeout=PATTERN_TIMEOUT_S) is not None
        except TimeoutError:
            raise SpecError(
                f"the pattern {self._pattern.pattern!r:.80} takes more than {PATTERN_TIMEOUT_S:g} s on the text {text!r:.60}; "
                "make it simpler"
            ) from None


def compile_regex(pattern: Any) -> UserPattern:
    """Return the compiled pattern. Raises SpecError for an invalid one."""
    try:
        return UserPattern(re.compile(pattern))
    except (re.error, regex.error, TypeError) as error:
        raise SpecError(f"{pattern!r} is not a regular expression ({error}); correct it") from None
