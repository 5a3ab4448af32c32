"""Texts that every database can store."""

from __future__ import annotations


def sanitize_text(text: str) -> str:
    r"""Return a text with U+FFFD in place of NUL and of half surrogate pairs, which JSON may contain and databases refuse.

    >>> sanitize_text("a\0b\ud83d")
    'a\ufffdb\ufffd'
    """
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "\ufffd")
