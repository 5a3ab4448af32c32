r"""Patterns of JSON Schema, which are ECMA-262's (flag u), as patterns of the package `regex`.

They differ from Python's: `\d`, `\w` and `\b` are of ASCII, `$` is the very end, `.` is no line end, `\p{L}` is a letter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from pytest_crucible.records.errors import SpecError

_WORD = "A-Za-z0-9_"
# ECMA-262's WhiteSpace and LineTerminator.
_SPACE = r"\t\n\x0b\x0c\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_CLASSES = {
    "d": "0-9",
    "w": _WORD,
    "s": _SPACE,
    "D": "[^0-9]",
    "W": f"[^{_WORD}]",
    "S": f"[^{_SPACE}]",
}
_BOUNDARIES = {
    "b": f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))",
    "B": f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))",
}
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "0": "\0"}
_ESCAPE = re.compile(
    r"""\\(?: u(?P<high>d[89ab][0-9a-f]{2})\\u(?P<low>d[c-f][0-9a-f]{2})
            | u\{(?P<point>[0-9a-f]+)\} | u(?P<four>[0-9a-f]{4}) | x(?P<two>[0-9a-f]{2})
            | c(?P<control>[a-z]) | (?P<property>p\{[\w=]+\}) | k<(?P<name>\w+)> | (?P<group>[1-9][0-9]*)
            | (?P<other>.) )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_QUANTITY = re.compile(r"\{\d+(?:,\d*)?\}")


@lru_cache(maxsize=256)
def compile_json_pattern(pattern: str) -> Any:
    """Return a compiled pattern of JSON Schema. Raises SpecError for an invalid one."""
    import regex  # takes longer to import than all metrics

    try:
        return regex.compile(_Translator(pattern).translate(), regex.VERSION1)
    except (ValueError, regex.error) as error:
        raise SpecError(f"the pattern {pattern!r} is not a regular expression of JSON Schema: {error}") from error


class _Translator:
    """Translates one pattern, from the left to the right."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._at = pattern, 0

    def translate(self) -> str:
        """Return the whole pattern. Raises ValueError."""
        parts = []
        while self._at < len(self._pattern):
            parts.append(self._next_part())
        return "".join(parts)

    def _next_part(self) -> str:
        letter = self._pattern[self._at]
        if letter == "\\":
            return self._escape(in_class=False)
        if letter == "[":
            return self._character_class()
        if quantity := _QUANTITY.match(self._pattern, self._at):
            self._at = quantity.end()
            return quantity.group()
        if self._pattern.startswith("(?<", self._at) and self._pattern[self._at + 3 : self._at + 4] not in ("=", "!"):
            self._at += 3
            return "(?P<"
        self._at += 1
        # A brace that counts nothing is itself; in `regex` it would allow errors.
        return {".": r"[^\n\r\u2028\u2029]", "$": r"\Z", "{": r"\{", "}": r"\}"}.get(letter, letter)

    def _escape(self, *, in_class: bool) -> str:
        match = _ESCAPE.match(self._pattern, self._at)
        if match is None:
            raise ValueError("it ends with a backslash")
        self._at = match.end()
        if match["property"] or match["name"] or match["group"]:
            return f"(?P={match['name']})" if match["name"] else match.group()
        other = match["other"] or ""
        if other in _CLASSES:
            text = _CLASSES[other]
            return text if in_class or text[0] == "[" else f"[{text}]"
        if other in _BOUNDARIES and not in_class:
            return _BOUNDARIES[other]
        return _literal(_character(match))

    def _character_class(self) -> str:
        parts: list[str] = []
        start = "[^" if self._pattern.startswith("[^", self._at) else "["
        self._at += len(start)
        while self._at < len(self._pattern) and self._pattern[self._at] != "]":
            parts.append(self._class_part(is_first=not parts))
        if self._at >= len(self._pattern):
            raise ValueError("a [ is not closed")
        self._at += 1
        if not parts:  # nothing, and anything
            return "(?!)" if start == "[" else r"[\s\S]"
        return f"{start}{''.join(parts)}]"

    def _class_part(self, *, is_first: bool) -> str:
        letter = self._pattern[self._at]
        if letter == "\\":
            return self._escape(in_class=True)
        self._at += 1
        ends = is_first or self._pattern.startswith("]", self._at)
        # Between two characters a hyphen makes a range; set operations of `regex` such as && are literal in ECMA-262.
        return "-" if letter == "-" and not ends else _literal(letter)


def _character(match: re.Match[str]) -> str:
    """Return the character that an escape stands for."""
    if match["high"]:
        return chr(0x10000 + (int(match["high"], 16) - 0xD800 << 10) + int(match["low"], 16) - 0xDC00)
    if code := match["point"] or match["four"] or match["two"]:
        return chr(int(code, 16))
    if match["control"]:
        return chr(ord(match["control"]) % 32)
    other = match["other"]
    if other == "b":  # in a class
        return "\b"
    if other.isalnum() and other not in _CONTROLS:
        raise ValueError(rf"\{other} has no meaning in it")
    return _CONTROLS.get(other, other)


def _literal(letter: str) -> str:
    """Return a pattern of one character, inside and outside of a class."""
    if letter.isalnum():
        return letter
    return f"\\{letter}" if letter.isascii() and letter.isprintable() else f"\\U{ord(letter):08x}"
