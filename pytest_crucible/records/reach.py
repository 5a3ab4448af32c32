"""The reach of a metric as suites declare it: the largest change of one sample between two arms that is possible."""

from __future__ import annotations

import math
from typing import Any

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.types import Kind

_WITHOUT: dict[Kind, str] = {
    "binary": "is yes or no, and changes by 1 or not at all",
    "text": "is text",
}


def check_reach(reach: Any, kind: Kind | None, bounds: tuple[float, float], what: str) -> float | None:
    """Return a declared reach as a number; None for None. Raises SpecError. `what` names it in messages.

    >>> check_reach(0.25, "bounded", (0, 1), "reach")
    0.25
    """
    if reach is None:
        return None
    if isinstance(reach, bool) or not isinstance(reach, int | float) or not 0 < reach < math.inf:
        raise SpecError(
            f"{what}={reach!r}: write a positive number, the largest change of one sample that is possible, such as 0.25"
        )
    if kind in _WITHOUT:
        raise SpecError(f"{what}={reach:g}, but it {_WITHOUT[kind]}: leave reach out")
    low, high = bounds
    if reach > high - low:
        raise SpecError(
            f"{what}={reach:g}, and no two values between {low:g} and {high:g} are further apart than {high - low:g}: "
            "write a smaller reach, or leave it out"
        )
    return float(reach)
