"""Labels of samples that are positive or negative, such as attacks and benign texts."""

from __future__ import annotations

from typing import Any

_LABELS = {"true": 1.0, "yes": 1.0, "1": 1.0, "attack": 1.0, "false": 0.0, "no": 0.0, "0": 0.0, "benign": 0.0}


def label_number(expected: Any) -> float | None:
    """Return 1 for a positive and 0 for a negative sample; else None.

    It is a bool, 0 or 1, or as text yes/no, true/false or attack/benign. A list of spans is positive if it has any.

    >>> label_number("yes"), label_number(0), label_number("SUPPORTS"), label_number([])
    (1.0, 0.0, None, 0.0)
    """
    if isinstance(expected, list | tuple):
        return float(len(expected) > 0)
    if isinstance(expected, str):
        return _LABELS.get(expected.strip().lower())
    # A bool is an int, so that True is 1.
    return float(expected) if isinstance(expected, int | float) and expected in (0, 1) else None
