"""Grammars of the decimal numbers within bounds, for constrained decoding: nine digits before the point and behind it at most."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TypeVar

from pytest_crucible.local_model.grammar import Node, characters, choice, literal, optional, repeat, sequence

Number = TypeVar("Number", int, Decimal)
DIGITS = 9
"""Numbers of more digits would lose some in most programs that read them."""
_LARGEST = 10**DIGITS - 1
_UNIT = Decimal(10) ** -DIGITS
_ANY = characters(string.digits)


def integer_node(low: Decimal | None = None, high: Decimal | None = None) -> Node:
    """Return the grammar of the whole numbers from `low` to `high`. Raises ValueError if there are none."""
    least = -_LARGEST if low is None else max(-_LARGEST, int(low.to_integral_value(ROUND_CEILING)))
    most = _LARGEST if high is None else min(_LARGEST, int(high.to_integral_value(ROUND_FLOOR)))
    if least > most:
        raise ValueError(f"allows no whole number of at most {DIGITS} digits")
    return _either_sign(least, most, lambda first, last: choice(_from_to(first, last)))


def number_node(low: Decimal | None = None, high: Decimal | None = None) -> Node:
    """Return the grammar of the numbers from `low` to `high`, with or without a fraction.

    Raises ValueError if there are none.
    """
    limit = _LARGEST + 1 - _UNIT
    least = -limit if low is None else max(-limit, low.quantize(_UNIT, ROUND_CEILING))
    most = limit if high is None else min(limit, high.quantize(_UNIT, ROUND_FLOOR))
    if least > most:
        raise ValueError(f"allows no number with at most {DIGITS} digits before the point and behind it")
    return _either_sign(least, most, lambda first, last: choice(_decimals(first, last)))


def _either_sign(least: Number, most: Number, make: Callable[[Number, Number], Node]) -> Node:
    """Return the grammar of the numbers from `least` to `most`; `make` gets a range of absolute values for each sign."""
    parts = []
    if most >= 0:
        parts.append(make(max(least, type(least)(0)), most))
    if least < 0:
        # Without -0 where 0 is not within the bounds.
        parts.append(sequence(literal("-"), make(max(-most, type(most)(0)), -least)))
    return choice(parts)


def _from_to(first: int, last: int) -> Iterator[Node]:
    """Yield the grammars of the whole numbers from `first` to `last`, both from 0: those of each number of digits."""
    for size in range(len(str(first)), len(str(last)) + 1):
        low, high = max(first, 10 ** (size - 1) if size > 1 else 0), min(last, 10**size - 1)
        yield _digits_between(str(low), str(high))


def _digits_between(low: str, high: str) -> Node:
    """Return the grammar of the digits between two texts of one length."""
    if not low:
        return sequence()
    if low[0] == high[0]:
        return sequence(literal(low[0]), _digits_between(low[1:], high[1:]))
    rest = len(low) - 1
    inner = string.digits[int(low[0]) + 1 : int(high[0])]
    parts = [
        sequence(literal(low[0]), _digits_between(low[1:], "9" * rest)),
        sequence(literal(high[0]), _digits_between("0" * rest, high[1:])),
    ]
    if inner:
        parts.append(sequence(characters(inner), repeat(_ANY, rest, rest)))
    return choice(parts)


def _decimals(first: Decimal, last: Decimal) -> Iterator[Node]:
    """Yield the grammars of the numbers from `first` to `last`, both from 0."""
    (low, low_fraction), (high, high_fraction) = _split(first), _split(last)
    if low == high:
        yield sequence(literal(str(low)), _fraction(low_fraction, high_fraction))
        return
    yield sequence(literal(str(low)), _fraction(low_fraction, "9" * DIGITS))
    yield sequence(literal(str(high)), _fraction("", high_fraction))
    if low + 1 < high:
        yield sequence(choice(_from_to(low + 1, high - 1)), optional(sequence(literal("."), repeat(_ANY, 1, DIGITS))))


def _split(number: Decimal) -> tuple[int, str]:
    whole, _, fraction = f"{number:.{DIGITS}f}".partition(".")
    return int(whole), fraction.rstrip("0")


def _fraction(low: str, high: str) -> Node:
    """Return the grammar of a fraction from .low to .high, with its point; it may be left out if low is 0."""
    low, high = low.ljust(DIGITS, "0"), high.ljust(DIGITS, "0")
    digits = sequence(literal("."), choice(_fractions(low, high, is_first=True)))
    return digits if low.strip("0") else optional(digits)


def _fractions(low: str, high: str, *, is_first: bool = False) -> Iterator[Node]:
    """Yield grammars of the digits between two fractions of one length, with or without zeros at the end."""
    if not is_first and not low.strip("0"):
        yield sequence()
    if not low:
        return
    if low[0] == high[0]:
        yield sequence(literal(low[0]), choice(_fractions(low[1:], high[1:])))
        return
    rest = len(low) - 1
    yield sequence(literal(low[0]), choice(_fractions(low[1:], "9" * rest)))
    yield sequence(literal(high[0]), choice(_fractions("0" * rest, high[1:])))
    if inner := string.digits[int(low[0]) + 1 : int(high[0])]:
        yield sequence(characters(inner), repeat(_ANY, 0, rest))
