"""What of a reply counts as its answer: replies that say the same in other words are to vote for the same.

A normaliser gives the answer as a text, or None for a reply that has none: it abstains.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

from pytest_crucible.metrics.numbers import final_number
from pytest_crucible.metrics.text import normalise

Normaliser = Callable[[str], "str | None"]

_MARKS = r"[ \t*_(\[\"'`]*+"
_STATED = re.compile(
    r"\b(?i:answer)\b(?:\s+(?i:is)\b)?[\s:*_(\[\"'`]*+(?:(?i:option|choice|letter)\b[\s*_(\[\"'`]*+)?"
    r"(?:([A-E])(?![\w'\u2019])|([a-e])(?=[)\].,;:!*_]|\s*$))",
    re.MULTILINE,
)
_WHOLE = re.compile(r"[\W_]*([A-Ea-e])[\W_]*")
_MARKED = re.compile(rf"^{_MARKS}([A-E])[)\].:]", re.MULTILINE)
_ARTICLE = re.compile(r"(?:^|[.!?:]\s)A(?=\s+(?!(?:or|and|is)\b)[a-z])", re.MULTILINE)
_ALONE = re.compile(r"(?<![\w'\u2019+\-])[A-E](?![\w'\u2019+\-])")
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL | re.IGNORECASE)


def text(reply: str) -> str | None:
    """The whole reply, as `exact_match` compares it; an empty one abstains.

    >>> text("  Paris\\n"), text(" ")
    ('paris', None)
    """
    return normalise(reply) or None


def number(reply: str) -> str | None:
    """The last number, as `final_number_matches` reads it; equal numbers are one answer, however they are written.

    >>> number("Step 1: 40 + 2, so the answer is 42.0"), number("$4.00"), number("none")
    ('42', '4', None)
    """
    value = final_number(reply)
    return None if value is None else plain(value)


def choice(reply: str) -> str | None:
    """One of the letters A to E.

    In this order: the reply is the letter; the last "answer: B", "the answer is (B)"; the reply begins with "B)" or "B."
    and no later line begins so with another letter; the only one of these letters that stands alone, as a capital (the
    article of "A dog" is none).

    >>> choice("(b)"), choice("A is tempting, but the answer is B."), choice("C) Paris"), choice("A dog"), choice("B or C")
    ('B', 'B', 'C', None, None)
    """
    whole = _WHOLE.fullmatch(reply)
    if whole:
        return whole[1].upper()
    stated = [one[1] or one[2] for one in _STATED.finditer(reply)]
    if stated:
        return stated[-1].upper()
    marked: set[str] = set(_MARKED.findall(reply))
    if len(marked) == 1 and _MARKED.match(reply.lstrip()):
        return marked.pop()
    alone: set[str] = set(_ALONE.findall(_ARTICLE.sub("", reply)))
    return alone.pop() if len(alone) == 1 else None


def json_value(reply: str) -> str | None:
    """The JSON that the reply is, or that its last fenced block is: keys sorted, equal numbers written the same.

    >>> json_value('{"b": 1.0, "a": [true]}') == json_value('```json\\n{"a": [true], "b": 1}\\n```'), json_value("Sure!")
    (True, None)
    """
    fenced = _FENCED.findall(reply)
    try:
        value = json.loads(
            fenced[-1] if fenced else reply, parse_float=Decimal, parse_int=Decimal, parse_constant=_refuse
        )
        return _written(value)
    except (ValueError, ArithmeticError, RecursionError):
        return None


NORMALISERS: Mapping[str, Normaliser] = {"text": text, "number": number, "choice": choice, "json": json_value}


def plain(value: Decimal) -> str:
    """A number in the one way that equal ones share.

    >>> plain(Decimal("1e2")), plain(Decimal("-0.00")), plain(Decimal("2.50"))
    ('100', '0', '2.5')
    """
    exact = Context(prec=max(1, len(value.as_tuple().digits)), Emax=MAX_EMAX, Emin=MIN_EMIN)
    short = exact.normalize(value)
    if not short:
        return "0"
    return f"{short:f}" if -20 < short.adjusted() < 40 else str(short)


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{','.join(f'{json.dumps(key)}:{_written(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return plain(value) if isinstance(value, Decimal) else json.dumps(value)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON, though Python reads it")
