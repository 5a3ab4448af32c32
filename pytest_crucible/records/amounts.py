"""Amounts of a difference as suites write them: a number in the metric's units, or a share such as "10 %"."""

from __future__ import annotations

import math
import re
from typing import Any

from pytest_crucible.records.errors import SpecError

_SHARE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*%\s*")


def check_amount(amount: Any, what: str) -> tuple[float | None, bool]:
    """Return a margin or a relevant difference as a number, and whether it is a share of a ratio. Raises SpecError.

    `what` names it in messages.

    >>> check_amount("10 %", "margin"), check_amount(0.05, "margin"), check_amount(None, "margin")
    ((0.1, True), (0.05, False), (None, False))
    """
    share = _parse_share(amount)
    number = amount if share is None else share
    if isinstance(number, str):
        raise SpecError(f'{what}={amount!r}: write a number, such as 0.05, or a share, such as "10 %"')
    if number is None:
        return None, False
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < math.inf:
        raise SpecError(f"{what}={amount!r}: write a positive number in the metric's units, such as 0.05")
    return number, share is not None


def parse_amount(text: str) -> float | str:
    """Return an amount of the command line: a number, or a share as it was written. Raises ValueError for anything else.

    >>> parse_amount("0.05"), parse_amount("10%")
    (0.05, '10%')
    """
    return text if _parse_share(text) is not None else float(text)


def amount_text(amount: float | None, is_share: bool) -> str:
    """Return an amount as it is shown: `0.05`, or `10 %`; empty without one."""
    if amount is None:
        return ""
    return f"{amount * 100:g} %" if is_share else f"{amount:g}"


def _parse_share(amount: Any) -> float | None:
    """Return 0.1 for "10 %"; None for other texts."""
    match = _SHARE.fullmatch(amount) if isinstance(amount, str) else None
    return float(match[1]) / 100 if match else None
