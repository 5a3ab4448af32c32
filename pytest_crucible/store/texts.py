"""Texts as every database takes them."""

from __future__ import annotations


def storable(text: str) -> str:
    r"""Without what databases refuse and a JSON answer may yet contain: NUL, and one half of a surrogate pair.

    >>> storable("a\0b\ud83d")
    'a\ufffdb\ufffd'
    """
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "\ufffd")
