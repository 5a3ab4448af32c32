"""What pytest reads of installed distributions when a session starts, read once for all sessions of a process.

Each session asks all of them twice for their entry points, and those with plugins for their files, names and versions.
"""

from __future__ import annotations

import functools
import sysconfig
from collections.abc import Callable
from importlib.metadata import Distribution, PathDistribution
from typing import Any

INSTALLED_IN = sysconfig.get_path("purelib")


def read_distributions_once() -> None:
    """Keep entry points, files and metadata of distributions that are installed; those that a test makes are read as ever."""
    for name in ("entry_points", "files", "metadata"):
        setattr(Distribution, name, property(_read_once(getattr(Distribution, name).fget)))


def _read_once(read: Callable[[Distribution], Any]) -> Callable[[Distribution], Any]:
    read_installed = functools.cache(lambda path: read(PathDistribution(path)))

    def value(self: Distribution) -> Any:
        path = getattr(self, "_path", None)
        return read_installed(path) if str(path).startswith(INSTALLED_IN) else read(self)

    return value
