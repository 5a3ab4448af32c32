"""A reply to a multiple-choice question as plain text, and the option whose text it names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

# Characters at the beginning and at the end of a longer reply that are read: a choice is stated there.
_READ = 4_000, 12_000
_BLANKS = re.compile(r"[ \t\u00a0]+")
_LATEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf|textrm|mathsf|bf)\s?\{([^{}]*)\}")
_MARKDOWN = re.compile(r"\*+|__|`+|\$|\\[()\[\]]")


def plain_text(text: str) -> str:
    """Return the text in common characters, without marks of emphasis and mathematics; lines stay."""
    if len(text) > sum(_READ):
        text = f"{text[: _READ[0]]}\n{text[-_READ[1] :]}"
    plain = unicodedata.normalize("NFKC", text).translate({0x2019: "'", 0x2013: "-", 0x2014: "-", 0x2192: "->"})
    return _BLANKS.sub(" ", _MARKDOWN.sub("", _LATEX.sub(r"\1", plain))).strip()


def option_named(plain: str, letters: str, options: Sequence[str]) -> str | None:
    """Return the letter of the only option whose text occurs; within another option's text it does not count."""
    if not options:
        return None
    reply = _words(plain)
    named = [place for place, option in enumerate(options) if _words(option).strip() and _words(option) in reply]
    longest = [
        place
        for place in named
        if not any(_words(options[place]) in _words(options[other]) != _words(options[place]) for other in named)
    ]
    is_denied = len(longest) == 1 and re.search(rf" not(?: the)?{re.escape(_words(options[longest[0]]))}", reply)
    return letters[longest[0]] if len(longest) == 1 and longest[0] < len(letters) and not is_denied else None


def _words(text: str) -> str:
    """Return the words of a text, each between blanks, so that a part of a word does not match."""
    words = re.findall(r"[-+]?[\w%](?:[.,-]?[\w%])*", unicodedata.normalize("NFKC", text).casefold())
    return f" {' '.join(words)} "
