"""Variables of `os.environ` that a session sets, and puts back when it ends."""

from __future__ import annotations

import os
from collections.abc import Mapping


class SessionEnvironment:
    """Remembers the value that each variable had before the session set it."""

    def __init__(self) -> None:
        self.original = dict(os.environ)
        """The environment as the user has it."""
        self._before: dict[str, str | None] = {}

    def set(self, variables: Mapping[str, str]) -> None:
        """Set variables until `restore`."""
        for name, value in variables.items():
            self._before.setdefault(name, os.environ.get(name))
            os.environ[name] = value

    def restore(self) -> None:
        """Put every variable back as it was before it was first set. Idempotent."""
        while self._before:
            name, value = self._before.popitem()
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
