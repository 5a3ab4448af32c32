"""What a model wrote, made fit for a terminal: it can neither move the cursor nor fill the screen for ever."""

from __future__ import annotations

MOST = 2_000
_KEPT = "\n\u00a0\u202f\u3000\u200c\u200d"
"""Not printable to Python, and harmless: the last two join and part letters of Persian, of Hindi, and the figures of an emoji."""


def printable(text: str, most: int = MOST) -> str:
    r"""Control, formatting and half characters as escapes (`\x1b`), tabs as blanks, and no more than `most` characters.

    >>> printable("\x1b[2Jred\t\u202eevil"), printable("a" * 30, 10)
    ('\\x1b[2Jred \\u202eevil', 'aaaaaaaaaa... (20 characters more)')
    """
    if len(text) <= most and text.replace("\n", "").isprintable():  # most are, and a million of them take a while
        return text
    shown: list[str] = []
    room = most
    for one in text:
        shown.append(one if one.isprintable() or one in _KEPT else _escaped(one))
        room -= len(shown[-1])
        if room < 0:
            shown.pop()
            break
    left = len(text) - len(shown)
    return "".join(shown) + (f"... ({left:,} characters more)" if left else "")


def _escaped(character: str) -> str:
    return " " if character == "\t" else character.encode("unicode_escape").decode("ascii")
