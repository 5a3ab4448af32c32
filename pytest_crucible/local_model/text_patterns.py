"""Grammars of the texts that a regular expression matches, for constrained decoding.

The regular part of the syntax that JSON Schema recommends (ECMA-262): alternatives, groups, classes, repetitions, anchors at both
ends. Texts are printable ASCII without quotes and backslashes, as all strings of the grammar. As in JSON Schema, a pattern without
anchors matches anywhere in a text.
"""

from __future__ import annotations

import re
import string

from pytest_crucible.local_model.grammar import Node, characters, choice, repeat, sequence, shortest

PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in '"\\')
"""The characters of strings, none of which JSON has to escape."""
_CLASSES = {"d": string.digits, "w": string.ascii_letters + string.digits + "_", "s": " "}
_REPEATS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_COUNTS = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}")
_MOST_EMPTY = 50
"""Parts that may be empty have as many readings at each place as they are repeated, which takes quadratic time."""
_SPECIAL = set("^$|()[]{}*+?")


def pattern_node(pattern: str) -> Node:
    """Return the grammar of the texts in which a pattern occurs. Raises ValueError for a part that is not supported."""
    return _Reader(pattern).read()


class _Reader:
    """Reads one pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._at = pattern, 0

    def read(self) -> Node:
        node = self._alternatives(is_outermost=True)
        if self._at < len(self._pattern):
            raise self._refuse()
        return node

    def _alternatives(self, *, is_outermost: bool = False) -> Node:
        parts = [self._sequence(is_outermost=is_outermost)]
        while self._take("|"):
            parts.append(self._sequence(is_outermost=is_outermost))
        return choice(parts)

    def _sequence(self, *, is_outermost: bool) -> Node:
        anywhere = repeat(characters(PRINTABLE))
        before = () if not is_outermost or self._take("^") else (anywhere,)
        parts: list[Node] = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            if (
                is_outermost
                and self._pattern[self._at] == "$"
                and self._pattern[self._at + 1 : self._at + 2] in ("", "|")
            ):
                self._at += 1
                return sequence(*before, *parts)
            parts.append(self._repetition())
        return sequence(*before, *parts, *((anywhere,) if is_outermost else ()))

    def _repetition(self) -> Node:
        part = self._part()
        least: int
        most: int | None
        if counts := _COUNTS.match(self._pattern, self._at):
            least = int(counts[1])
            most = least if counts[2] is None else int(counts[3]) if counts[3] else None
            self._at = counts.end()
            if most is not None and most < least:
                raise self._refuse()
        elif self._at < len(self._pattern) and self._pattern[self._at] in _REPEATS:
            least, most = _REPEATS[self._pattern[self._at]]
            self._at += 1
        else:
            return part
        # A lazy repetition matches the same texts; a possessive one does not.
        self._take("?")
        if max(least, most or 0) > _MOST_EMPTY and shortest(part) == 0:
            raise self._refuse()
        return repeat(part, least, most)

    def _part(self) -> Node:
        if self._take("("):
            if self._take("?") and not self._take(":"):
                raise self._refuse()
            node = self._alternatives()
            if not self._take(")"):
                raise self._refuse()
            return node
        if self._take("["):
            return self._of(self._class())
        if self._take("."):
            return characters(PRINTABLE)
        if self._take("\\"):
            return self._of(self._escape())
        if self._at >= len(self._pattern) or self._pattern[self._at] in _SPECIAL:
            raise self._refuse()
        self._at += 1
        return self._of(set(self._pattern[self._at - 1]))

    def _of(self, allowed: set[str]) -> Node:
        if not (printable := "".join(sorted(allowed & set(PRINTABLE)))):
            raise self._refuse()
        return characters(printable)

    def _class(self) -> set[str]:
        is_negated, allowed, start = self._take("^"), set[str](), self._at
        while not self._take("]"):
            first = self._member()
            rest = self._pattern[self._at : self._at + 2]
            if len(first) == 1 and rest.startswith("-") and rest != "-]":
                self._at += 1
                last = self._member()
                if len(last) != 1 or min(first) > min(last):
                    raise self._refuse()
                first = {chr(code) for code in range(ord(min(first)), ord(min(last)) + 1)}
            allowed |= first
        if self._at == start + 1 and not is_negated:
            raise self._refuse()
        return set(PRINTABLE) - allowed if is_negated else allowed

    def _member(self) -> set[str]:
        if self._at >= len(self._pattern):
            raise self._refuse()
        if self._take("\\"):
            return self._escape()
        self._at += 1
        return {self._pattern[self._at - 1]}

    def _escape(self) -> set[str]:
        letter = self._pattern[self._at : self._at + 1]
        self._at += 1
        if letter.lower() in _CLASSES and letter:
            allowed = set(_CLASSES[letter.lower()])
            return allowed if letter.islower() else set(PRINTABLE) - allowed
        if not letter or letter.isalnum():
            self._at -= 1
            raise self._refuse()
        return {letter}

    def _take(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _refuse(self) -> ValueError:
        return ValueError(
            f"this model's decoding cannot keep {self._pattern[max(0, self._at - 1) :][:20]!r} in the pattern {self._pattern!r}: "
            "use alternatives, groups, classes of ASCII characters, repetitions, ^ and $"
        )
