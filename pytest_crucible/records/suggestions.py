"""Suggests the nearest known name for an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# difflib's own default: one wrong letter in three is still near.
NEAR = 0.6


def suggest(name: str, names: Iterable[str], *, otherwise: str = "", always: str = "") -> str:
    """Return "did you mean 'NAME'?" where a name is near, else `otherwise`; followed by `always`.

    >>> suggest("acuracy", ["accuracy", "cost"], always="the metrics are accuracy, cost")
    "did you mean 'accuracy'? the metrics are accuracy, cost"
    >>> suggest("x", ["accuracy"], otherwise="there is accuracy")
    'there is accuracy'
    """
    near = closest_name(name, names)
    hint = otherwise if near is None else f"did you mean {near!r}?"
    return " ".join(part for part in (hint, always) if part)


def closest_name(name: str, names: Iterable[str], *, cutoff: float = NEAR) -> str | None:
    """Return the name that is most similar; None if none reaches the similarity `cutoff`, from 0 to 1."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=cutoff)), None)
