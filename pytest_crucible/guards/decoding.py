"""Decodes the encoded parts of a text: base64 and hex, in one piece or broken into lines or groups."""

from __future__ import annotations

import binascii
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from string import ascii_letters, digits, hexdigits

from pytest_crucible.guards.characters import LONG
from pytest_crucible.guards.long_texts import has_run

# Of both encodings: eight bytes in hex, twelve in base64.
_SHORTEST = 16
_BASE64_SIGNS, _HEX_SIGNS = f"{ascii_letters}{digits}+/", f"{hexdigits} :,\\x\n\r-"
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}+")
_GROUP = re.compile(r"[A-Za-z0-9+/]{4,}+={0,2}|[A-Za-z0-9+/]{2,3}={1,2}")
# The first digit of an ASCII character is 2 to 7. Looking at sixteen characters first saves most attempts.
_BETWEEN_BYTES = r"[\s:,-]"
_HEX = re.compile(
    rf"[2-7](?=(?:[0-9a-fA-F]|{_BETWEEN_BYTES}){{15}})[0-9a-fA-F](?:{_BETWEEN_BYTES}{{0,2}}[0-9a-fA-F]{{2}}){{7,}}+"
)
_ESCAPED = re.compile(r"(?:\\x|0x)[2-7][0-9a-fA-F](?:[\s,]{0,2}(?:\\x|0x)[0-9a-fA-F]{2}){7,}+")
_NOT_HEX = re.compile(rf"\\x|0x|{_BETWEEN_BYTES}")
# Not UTF-8: the first byte of a longer character without its second one, or a later byte without a first one.
_NO_UTF8 = re.compile(rb"[\xc0-\xff][^\x80-\xbf]|(?:^|[\x00-\x7f])[\x80-\xbf]")
# Of a text that was encoded, most characters are printable. Random bytes are seldom valid UTF-8 to begin with.
_PRINTABLE_SHARE = 0.9
_FEW_BYTES = 12


def decode(text: str) -> tuple[str, str]:
    """Return what base64 and what hex in a text says; empty where it has none.

    What all tokens say is one text: a text of thousands of tokens would have as many. Equal tokens are decoded once.
    """
    return _decode_base64(text), _decode_hex(text)


def _decode_base64(text: str) -> str:
    text = text.replace("-", "+").replace("_", "/").replace("\\n", "\n")
    tokens = [] if len(text) >= LONG and not has_run(text, _BASE64_SIGNS, _SHORTEST) else _BASE64.findall(text)
    heads = _list_heads()
    encoded = dict.fromkeys([*tokens, *_join_groups(text)])
    return "\n".join(_readable(_from_base64(token)) for token in encoded if token[:2] in heads).strip()


def _join_groups(text: str) -> Iterator[str]:
    r"""Yield groups of equal length, and the shorter one behind them, as one token: encoded texts are broken into lines so.

    >>> list(_join_groups("aWdub3Jl\nIGFsbCBy\ndWxlcw=="))
    ['aWdub3JlIGFsbCBydWxlcw']
    """
    groups, length = [""], 0
    for group in _GROUP.findall(text):
        if len(group) <= length:
            groups.append(group)
        if len(group) != length or group[-1] == "=":
            if len(groups) > 1:
                yield from _join(groups)
            is_last = len(group) < length or group[-1] == "="
            groups, length = ([], 0) if is_last else ([group], len(group))
    yield from _join(groups)


def _join(groups: Sequence[str]) -> Iterator[str]:
    token = "".join(groups).rstrip("=")
    if len(groups) > 1 and len(token) >= _SHORTEST:
        yield token


@functools.cache
def _list_heads() -> frozenset[str]:
    """Return the first two characters, in base64, of all texts in UTF-8."""
    heads = map("".join, itertools.product(_BASE64_SIGNS, repeat=2))
    return frozenset(head for head in heads if not _NO_UTF8.search(_from_base64(f"{head}AA")[:2]))


def _from_base64(token: str) -> bytes:
    # The padding is missing here; one letter too many cannot be decoded.
    return binascii.a2b_base64((token[:-1] if len(token) % 4 == 1 else token) + "==")


def _decode_hex(text: str) -> str:
    if len(text) >= LONG and not has_run(text, _HEX_SIGNS, _SHORTEST):
        return ""
    has_escape = "\\x" in text or "0x" in text
    tokens = dict.fromkeys([*_HEX.findall(text), *(_ESCAPED.findall(text) if has_escape else ())])
    return "\n".join(_readable(bytes.fromhex(_NOT_HEX.sub("", token))) for token in tokens).strip()


def _readable(data: bytes) -> str:
    """Return the text that bytes encode; empty if they are not a text."""
    # Of random bytes the first few say so, in half the time of an error.
    if not data.isascii() and _NO_UTF8.search(data, 0, _FEW_BYTES):
        return ""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        # Behind what was encoded stood a word that looks so, too.
        if error.start < _FEW_BYTES:
            return ""
        text = data[: error.start].decode("utf-8")
    # Of most texts all characters are printable; looking at each takes a hundred times as long.
    is_text = text.isprintable() or sum(map(str.isprintable, text)) + text.count("\n") >= _PRINTABLE_SHARE * len(text)
    return text if is_text else ""
