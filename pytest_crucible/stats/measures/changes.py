"""Changes of one sample between two arms, where a metric declares the largest one that is possible: its reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pytest_crucible.stats.inputs import beyond_reach
from pytest_crucible.stats.measures.row import Floats, Numbers, Prepared


def largest_change(prepared: Prepared) -> float:
    """Return the largest difference of a pair: the declared one, or the range; infinite without either.

    >>> largest_change(Prepared(values=np.zeros(2), bounds=(0.0, 1.0), largest_change=0.25))
    0.25
    """
    span = prepared.bounds[1] - prepared.bounds[0]
    return span if prepared.largest_change is None else min(span, prepared.largest_change)


def limit_changes(first: Prepared, second: Prepared) -> tuple[Prepared, Prepared]:
    """Return both arms with lost values, which may be infinite, no further from their pair than it can change.

    The observed values of a pair are never further apart: a reach that they exceed is not used.
    """
    reach = first.largest_change
    if reach is None:
        return first, second
    far = beyond_reach(first.values, second.values, reach)
    if not far.any():
        return first, second
    ours, theirs = first.values[far], second.values[far]
    change = np.where(ours > theirs, reach, -reach)
    # Where both are lost, any two values with this change stand for them.
    theirs = np.where(np.isfinite(theirs), theirs, np.where(np.isfinite(ours), ours, 0.0) - change)
    return _replaced(first, far, theirs + change), _replaced(second, far, theirs)


def _replaced(prepared: Prepared, chosen: np.typing.NDArray[np.bool_], values: Floats) -> Prepared:
    copied = prepared.values.copy()
    copied[chosen] = values
    return replace(prepared, values=copied)


def change_bounds(prepared: Prepared) -> Numbers:
    """Return the ends of a difference of two values."""
    span = largest_change(prepared)
    return -span, span
