"""Code and the tests that judge it, which run in two processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Untrusted code, and tests that call its functions from another process.

    >>> Submission(code="def double(x): return 2 * x", tests="assert double(2) == 4", functions=("double",)).setup
    ''
    """

    code: str
    """Defines the functions. It never sees the tests: only the arguments of each call."""
    tests: str
    """Pass if they run to their end without an exception."""
    functions: tuple[str, ...]
    """The names of the code's functions that the tests call."""
    setup: str = ""
    """Runs before the tests and without the code's functions: helpers of the tests."""
