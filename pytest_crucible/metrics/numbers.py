"""Metrics that read a number from a reply."""

from __future__ import annotations

import re
from collections import deque
from decimal import Decimal, InvalidOperation

from pytest_crucible.metrics.definition import NotApplicable, metric
from pytest_crucible.metrics.text import NO_EXPECTED
from pytest_crucible.records import Reply, Sample

# A sign counts only if no operand precedes it: the last number of "16-3" is 3, of "= -3" it is -3.
# Thousands are groups of exactly three digits, so "1,2" is two numbers.
_NUMBER = re.compile(
    r"""(?<![\w.])                          # not inside a word or a number
        (?:(?<![\d)%])(?<![\d)%][^\S\n])[-+\u2212])?   # a sign, unless it is a binary operator on this line
        [$\u20ac\u00a3]?
        (\d{1,3}(?:,\d{3}){1,40}(?!\d)|\d+|(?=\.\d))   # digits, perhaps grouped
        (\.\d+)?
        (e[-+]?\d+)?""",
    re.VERBOSE | re.IGNORECASE,
)


def final_number(text: str) -> Decimal | None:
    """Return the last number of a text, exactly; None for a text without numbers.

    >>> final_number("She makes 9 * 2 = $18.00 a day"), final_number("16-3"), final_number("it fell to -1,250.5")
    (Decimal('18.00'), Decimal('3'), Decimal('-1250.5'))
    """
    written = deque(_NUMBER.finditer(text), maxlen=1)
    return _exact(written[0].group()) if written else None


def _exact(written: str) -> Decimal | None:
    plain = re.sub(r"[,$\u20ac\u00a3]", "", written).replace("\u2212", "-")
    try:
        return Decimal(plain)
    except InvalidOperation:
        return None


@metric(kind="binary", version="1")
def final_number_matches(reply: Reply, sample: Sample) -> bool | NotApplicable:
    """The last number of the reply equals the last number of the expected answer (18, 18.0 and $18.00 are equal)."""
    if sample.expected is None:
        return NO_EXPECTED
    right = final_number(str(sample.expected))
    return right is not None and final_number(reply.text) == right
