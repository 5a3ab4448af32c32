"""Metrics that read numbers from a reply, also with units, separators, per cent signs and fractions, between words."""

from __future__ import annotations

import re
from collections import deque
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Literal, get_args

from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.text import NO_EXPECTED, expected_answers
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError

# A sign counts only if no operand precedes it: the last number of "16-3" is 3, of "= -3" it is -3.
# Thousands are groups of exactly three digits, so "1,2" is two numbers.
# In scripts without blanks, and in Korean, a number may follow a letter.
_OUTSIDE = r"(?<![.\d])(?<![^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff])"
_NUMBER = re.compile(
    rf"""{_OUTSIDE}                          # not inside a word or a number
        (?:(?<![\d)%])(?<![\d)%][^\S\n])[-+\u2212])?   # a sign, unless it is a binary operator on this line
        [$\u20ac\u00a3]?
        (\d{{1,3}}(?:,\d{{3}}){{1,40}}(?!\d)|\d+|(?<!\w)(?=\.\d))   # digits, perhaps grouped
        (\.\d+)?
        (e[-+]?\d+)?""",
    re.VERBOSE | re.IGNORECASE,
)


# Marks that Arabic and East Asian texts write beside their digits, which `\d` includes.
_MARKS = str.maketrans(
    {"\u066b": ".", "\u066c": ",", "\u066a": "%", "\uff0e": ".", "\uff05": "%", "\uff0d": "-", "\uff0b": "+"}
)


def _plain_marks(text: str) -> str:
    return text if text.isascii() else text.translate(_MARKS)


def final_number(text: str) -> Decimal | None:
    """Return the last number of a text, exactly; None for a text without numbers.

    >>> final_number("She makes 9 * 2 = $18.00 a day"), final_number("16-3"), final_number("it fell to -1,250.5")
    (Decimal('18.00'), Decimal('3'), Decimal('-1250.5'))
    """
    last = deque(_NUMBER.finditer(_plain_marks(text)), maxlen=1)
    if not last:
        return None
    plain = re.sub(r"[,$\u20ac\u00a3]", "", last[0].group()).replace("\u2212", "-")
    try:
        return Decimal(plain)
    except InvalidOperation:
        return None


@metric(kind="binary", version="2")
def final_number_matches(reply: Reply, sample: Sample) -> bool | NotApplicable:
    """The last number of the reply equals the last number of the expected answer (18, 18.0 and $18.00 are equal)."""
    if sample.expected is None:
        return NO_EXPECTED
    right = final_number(str(sample.expected))
    return right is not None and final_number(reply.text) == right


Which = Literal["last", "first", "marked"]
MARKERS = ("####", r"\boxed{", "final answer is", "final answer:", "answer is", "answer:")
# Longer numbers are skipped: exact arithmetic with them would take too long.
MAX_DIGITS = 400
# The repetition is bounded: otherwise a long row of groups would be scanned again from each of them, in quadratic time.
_WHOLE = r"(?:\d{1,3}(?:,\d{3}){1,40}(?!\d)|\d+)"
_QUANTITY = re.compile(
    rf"""{_OUTSIDE}
        (?:(?<![\d)%])(?<![\d)%][^\S\n])(?P<sign>[-+\u2212])[^\S\n]?)?   # no sign where an operand stands before it
        [$\u20ac\u00a3]?
        (?: (?P<mixed>{_WHOLE})[^\S\n](?=\d+/\d))?                      # 1 1/2
        (?: \\d?frac\{{(?P<top>\d+)\}}\{{(?P<bottom>\d+)\}}
          | (?P<over>{_WHOLE})[^\S\n]?/[^\S\n]?(?P<under>\d+(?!\.?\d))
          | (?P<plain>{_WHOLE}(?:\.\d+)?|(?<!\w)\.\d+)(?:e(?P<power>[-+]?\d{{1,3}})(?!\w))? )
        (?P<percent>[^\S\n]?(?:\\?%|percent\b|per\ cent\b))?""",
    re.VERBOSE | re.IGNORECASE,
)


def quantities(text: str) -> list[Fraction]:
    r"""Return all numbers of a text, exactly. 1/2, 1 1/2, \frac{1}{2}, 50 %, 1,250.5, $18, 3 km and 2e3 are one number each.

    >>> [str(number) for number in quantities("half is 1/2 or 50 %; 1,250.5 km; -3")]
    ['1/2', '1/2', '2501/2', '-3']
    """
    values = map(_quantity_value, _QUANTITY.finditer(_plain_marks(text)))
    return [value for value in values if value is not None]


def _quantity_value(match: re.Match[str]) -> Fraction | None:
    if len(match.group()) > MAX_DIGITS:
        return None
    if match["plain"] is not None:
        plain = Decimal(match["plain"].replace(",", "")).scaleb(int(match["power"] or 0))
        value = Fraction(plain)
    else:
        top, bottom = match["top"] or match["over"], match["bottom"] or match["under"]
        if int(bottom) == 0:
            return None
        value = Fraction(int(top.replace(",", "")), int(bottom))
    value += int((match["mixed"] or "0").replace(",", ""))
    value = -value if match["sign"] in ("-", "\u2212") else value
    return value / 100 if match["percent"] else value


def chosen_number(text: str, which: Which = "last") -> Fraction | None:
    r"""Return the number that a reply gives as its answer; None without such a number.

    `last` and `first` refer to all its numbers; `marked` is the first number after the last marker (####, \boxed{, "answer is",
    "answer:").

    >>> str(chosen_number("4 + 5 = 9. The answer is 9, not 10.", "marked"))
    '9'
    """
    if which == "marked":
        lower = text.lower()
        after = max((lower.rfind(marker) + len(marker) for marker in MARKERS if marker in lower), default=None)
        return next(iter(quantities(text[after:])), None) if after is not None else None
    numbers = quantities(text)
    return numbers[-1 if which == "last" else 0] if numbers else None


def numeric_match(
    *,
    which: Which = "last",
    relative: float = 0.0,
    absolute: float = 0.0,
    percent_is_plain: bool = False,
    name: str = "numeric_match",
) -> Metric:
    """Return a metric that is true if the reply's number is the expected one, within a tolerance.

    |reply - expected| <= max(absolute, relative * |expected|), in exact arithmetic. One of several expected answers is enough;
    the last number of each counts. 50 % is 1/2; with `percent_is_plain`, "50 %" and "50" are equal as well. A reply without
    a number is wrong.

    >>> near = numeric_match(relative=0.01)
    >>> near(Reply(text="about 3.15"), Sample(id="1", input="", expected=3.14))
    True
    """
    _check_settings(name, which, relative, absolute)
    # Through str: the decimal as written, 0.1 and not its nearest double.
    near, far = Fraction(str(relative)), Fraction(str(absolute))

    @metric(name=name, kind="binary", version=f"2:{which}:{relative}:{absolute}:{percent_is_plain}")
    def same(reply: Reply, sample: Sample) -> bool | NotApplicable:
        """The reply's number is the expected one, within the tolerances."""
        if sample.expected is None:
            return NO_EXPECTED
        number, expected = chosen_number(reply.text, which), expected_answers(sample)
        rights = [right for right in map(chosen_number, expected) if right is not None]
        if not rights:
            return NotApplicable("the expected answer has no number")
        if number is None:
            return False
        has_percent = percent_is_plain and "%" in _plain_marks(reply.text + str(expected))
        readings = [number, number * 100, number / 100] if has_percent else [number]
        return any(abs(read - right) <= max(far, near * abs(right)) for right in rights for read in readings)

    return same


def _check_settings(name: str, which: str, relative: float, absolute: float) -> None:
    if which not in get_args(Which):
        raise SpecError(f"which={which!r} of metric {name!r}: write 'last', 'first' or 'marked'")
    if not (0 <= relative < 1 and 0 <= absolute < float("inf")):
        raise SpecError(
            f"metric {name!r} has relative={relative} and absolute={absolute}: expected a share below 1, and an amount from 0"
        )


numeric_matches = numeric_match(name="numeric_matches")
"""The registered metric: the last number, exactly."""
