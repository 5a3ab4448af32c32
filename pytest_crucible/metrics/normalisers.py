"""Normalisers: replies with the same answer in different words must vote for the same.

A normaliser returns the answer as a text; None for a reply without one, which abstains.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

from pytest_crucible.metrics.numbers import final_number
from pytest_crucible.records.datasets import normalise

Normaliser = Callable[[str], "str | None"]

# "I" and letters beyond are left out: alone they are more often a pronoun or a name than an option.
_LETTERS = "ABCDE"
_CODE_BLOCK = re.compile(r"```(?:json)?[^\S\n]*+\n(.*?)```", re.DOTALL | re.IGNORECASE)


def text(reply: str) -> str | None:
    """Return the whole reply, normalised as for `exact_match`; an empty one abstains.

    >>> text("  Paris\\n"), text(" ")
    ('paris', None)
    """
    return normalise(reply) or None


def number(reply: str) -> str | None:
    """Return the last number, as for `final_number_matches`; equal numbers are one answer, however they are written.

    >>> number("Step 1: 40 + 2, so the answer is 42.0"), number("$4.00"), number("none")
    ('42', '4', None)
    """
    value = final_number(reply)
    return None if value is None else plain_number(value)


def choice(reply: str) -> str | None:
    """Return the letter from A to E that the reply chooses, as `choice_match` reads it; None if it is unclear.

    >>> choice("(b)"), choice("A is tempting, but the answer is B."), choice("C) Paris"), choice("A dog"), choice("B or C")
    ('B', 'B', 'C', None, None)
    """
    # Imported where it is used: the patterns of choices take longer to compile than a session of one sample.
    from pytest_crucible.metrics.choice import read_choice

    return read_choice(reply, _LETTERS)


def json_value(reply: str) -> str | None:
    """Return the reply's JSON, or that of its last fenced block: with sorted keys, and equal numbers written the same.

    >>> json_value('{"b": 1.0, "a": [true]}') == json_value('```json\\n{"a": [true], "b": 1}\\n```'), json_value("Sure!")
    (True, None)
    """
    fenced = _CODE_BLOCK.findall(reply)
    try:
        value = json.loads(
            fenced[-1] if fenced else reply, parse_float=Decimal, parse_int=Decimal, parse_constant=_refuse
        )
        return _canonical_json(value)
    except (ValueError, ArithmeticError, RecursionError):
        return None


NORMALISERS: Mapping[str, Normaliser] = {"text": text, "number": number, "choice": choice, "json": json_value}


def plain_number(value: Decimal) -> str:
    """Write a number in a canonical form, the same for equal numbers.

    >>> plain_number(Decimal("1e2")), plain_number(Decimal("-0.00")), plain_number(Decimal("2.50"))
    ('100', '0', '2.5')
    """
    # Decimal's default precision of 28 digits would round longer numbers together.
    exact = Context(prec=max(1, len(value.as_tuple().digits)), Emax=MAX_EMAX, Emin=MIN_EMIN)
    short = exact.normalize(value)
    if not short:
        return "0"
    # Beyond this range plain digits would be longer than the exponent form by pages.
    return f"{short:f}" if -20 < short.adjusted() < 40 else str(short)


def _canonical_json(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{','.join(f'{json.dumps(key)}:{_canonical_json(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_canonical_json, value))}]"
    return plain_number(value) if isinstance(value, Decimal) else json.dumps(value)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON, though Python accepts it")
