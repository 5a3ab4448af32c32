"""The version of the rules by which verdicts are decided. A stored run has the version of the build that decided it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RULES_VERSION = 2
"""2: a gate asks whether arms are alike, by permutation, and bounds of the mean say what is proven (decision 0050).
1: t and CR2 decided both."""


def rules_of(environment: Mapping[str, Any]) -> int:
    """Return the version of the rules of a stored run, by its environment; builds before version 2 stored none.

    >>> rules_of({}), rules_of({"rules": 2})
    (1, 2)
    """
    return int(environment.get("rules", 1))
