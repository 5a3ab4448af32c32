"""Code and the tests that judge it, which run in two processes."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

# Code cannot contain it, so code cannot draw what its tests will draw.
_SEED_KEY = secrets.token_bytes(16)


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
    seed: int | None = None
    """Of `random` in the tests; the code's is 0. By default a number that only this process can know, the same for equal tests."""

    def __post_init__(self) -> None:
        if self.seed is None:
            tests = f"{self.setup}\0{self.tests}".encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(tests, key=_SEED_KEY, digest_size=8).digest()
            object.__setattr__(self, "seed", int.from_bytes(digest))
