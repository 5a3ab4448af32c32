"""The forms of telephone numbers, whatever the words around them."""

from __future__ import annotations

import re

# Groups of digits, and perhaps an extension. A pattern that begins with a set of characters is searched five times as fast as one
# that begins with a look behind, so that comes second, here and in the other detectors.
CANDIDATE = re.compile(
    r"[+(\d](?<![\w$€£#/=+-].)(?<!\d[.,:].)(?![ .\-/]\d\D)(?:(?<=\+)\(?\d|(?<=\()\d|(?<=\d))\d{0,14}+"
    # Behind a country code the area may have one digit: `+33 1 23 45 67 89`.
    r"(?:[ .\-/]\d{2,9}|(?:(?<=\+\d)|(?<=\+\d\d)|(?<=\+\d\d\d))[ .\-]\d(?=[ .\-]\d\d)"
    r"|[ .\-/]?\(\d{1,5}\)[ .\-/]?\d{1,9}|\)[ .\-/]?\d{2,9}){0,6}+(?<=\d\d)"
    r"(?:[ ]?(?:x|ext\.? ?)\d{1,5})?(?![\w%])(?![.,]\d)(?! ?[=*+])",
    re.ASCII,
)
_EXTENSION = r"(?:[ ]?(?:x|ext\.? ?)\d{1,5})?"
# North American numbers, those with the area in parentheses, and French ones need no word beside them; nor do international ones.
_FORMS = (
    rf"(?:00[ .-]?)?1?[ .-]?(?:\([2-9]\d\d\)[ -]?\d{{3}}[ .-]|[2-9]\d\d-\d{{3}}-|[2-9]\d\d\.\d{{3}}\.)\d{{4}}{_EXTENSION}"
    r"|\(0?\d{2,5}\)[ ]?\d{2,4}[ -]?\d{2,4}(?:[ -]\d{2,4})?"
    r"|0\d(?:(?P<gap>[ .-])\d\d)(?:(?P=gap)\d\d){3}"
)
CLEAR = re.compile(rf"{_FORMS}|\+\(?\d{{1,3}}\)?[ .\-/(]*\d.*|00[1-9]\d?[ .-]\d.*", re.DOTALL)
# One of several numbers in a row.
CLEAR_INSIDE = re.compile(rf"(?<![^ ])(?:{_FORMS}|\+\d{{1,3}}[ .-]?\(?\d{{1,4}}\)?(?:[ .-]?\d{{2,4}}){{2,3}})(?![^ ])")
# What each of these forms has. One set of characters in front is searched several times as fast as alternatives.
FORM = re.compile(
    r"[+(0.-](?:(?<=[+(])|(?<=0)(?=\d(?:[ .-]\d\d){4}|0[1-9]\d?[ .-]\d)|(?<=\d\d\d[-.])(?=\d\d\d[-.]\d{4}))", re.ASCII
)
FEWEST_DIGITS, MOST_DIGITS = 7, 15
DATE = re.compile(
    r"(?:19|20)\d\d(?P<after_year>[-./ ])[01]?\d(?P=after_year)[0-3]?\d.*"
    r"|[0-3]?\d(?P<before_year>[-./ ])[0-3]?\d(?P=before_year)(?:19|20)\d\d.*",
    re.DOTALL,
)
NO_PHONE = re.compile(rf"{DATE.pattern}|\d+\.\d+", re.DOTALL)
# All that a number has beside digits, but for its extension.
_NO_DIGITS = b"+( .-/)"


def read_shape(number: str) -> tuple[bool, bool]:
    """Return whether a number may be a telephone's, and whether only telephones have its form."""
    digits = len(number.partition("x")[0].partition("e")[0].encode().translate(None, _NO_DIGITS))
    may_be = FEWEST_DIGITS <= digits <= MOST_DIGITS and not NO_PHONE.fullmatch(number)
    return may_be, CLEAR.fullmatch(number) is not None
