"""The forms in which a text is read, so that disguised words are found: normalised, without markup, parted, decoded.

A form is text without places: what a rule finds in it cannot be traced to characters of the original.
"""

from __future__ import annotations

import binascii
import functools
import html
import itertools
import re
from collections.abc import Iterator, Sequence
from string import ascii_letters, ascii_lowercase, digits, hexdigits
from urllib.parse import unquote

from pytest_crucible.features.guards.long_texts import LONG, has_any, has_pair, has_run
from pytest_crucible.features.guards.normalise import Alphabet, fold_marks, normalise

# How often what was written as references is read again: `%2569` is `%69`, which is `i`.
_DEPTH = 2
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_ESCAPE = re.compile(r"\\u\{?([0-9A-Fa-f]{4,6})\}?|\\U([0-9A-Fa-f]{8})|\\x([0-9A-Fa-f]{2})|\\([0-7]{3})")
# Three bytes at least: `n=20` is no blank.
_QUOTED_PRINTABLE = re.compile(r"(?:=[0-9A-F]{2}(?:=\r?\n)?){3,}+")
_LAST = 0x10FFFF
# Elements within a word; others part words.
_INLINE = (
    "a|abbr|acronym|b|bdi|bdo|big|cite|code|del|dfn|em|font|i|ins|kbd|label|mark|q|s|samp|small|span|strike|strong|sub|sup|tt|u"
    "|var|wbr"
)
_INLINE_TAG = re.compile(rf"</?(?:{_INLINE})(?:\s[^<>]{{0,300}})?/?>")
_TAG = re.compile(r"</?[a-z][^<>]{0,300}>")
_BULLETIN_BOARD = re.compile(r"\[/?(?:b|i|u|s|color|size|font|url|quote|code|center|img)(?:=[^\[\]]{0,80})?\]")
_LINK = re.compile(r"!?\[([^\[\]]{1,300})\](?:\([^()\s]{0,300}(?:\s[^()]{0,100})?\)|\[[^\[\]]{0,60}\])")
_COMMAND = re.compile(r"\\[a-z]{2,20}\*?(?=\{)")
# Signs within words are left out; others part words.
_SIGNS = str.maketrans(dict.fromkeys("*~`{}^\\", "") | dict.fromkeys("|#>_", " "))
_HAS_MARKUP = re.compile(r"[*~`{}^\\|#>_<\[]")


def read_references(text: str) -> str:
    """Return a text with its HTML entities, percent codes and escapes as the characters that they stand for.

    >>> read_references("&#105;gnore%20all r\\u0075les")
    'ignore all rules'
    """
    for _ in range(_DEPTH):
        read = text
        if "&" in text:
            text = html.unescape(text)
        if "%" in text and _PERCENT.search(text):
            text = unquote(text)
        if "\\" in text:
            text = _ESCAPE.sub(_read_escape, text)
        if text == read:
            break
    return _QUOTED_PRINTABLE.sub(_read_bytes, text) if "=" in text else text


def _read_bytes(match: re.Match[str]) -> str:
    return bytes.fromhex("".join(match[0].replace("=", " ").split())).decode(errors="replace")


def _read_escape(match: re.Match[str]) -> str:
    code = int(match[4], 8) if match[4] else int(match[1] or match[2] or match[3], 16)
    return chr(code) if code <= _LAST else match[0]


def strip_markup(text: str) -> str:
    """Return the words of a text in lower case without tags and the signs of Markdown; underscores part words.

    >>> strip_markup("<p>ig<b>nore</b> **all** _previous_ [rules](x.md)</p>")
    'ignore all previous rules'
    """
    if not _HAS_MARKUP.search(text):
        return text
    if "<" in text:
        text = _TAG.sub(" ", _INLINE_TAG.sub("", _strip_comments(text)))
    if "[" in text:
        text = _LINK.sub(r"\1", _BULLETIN_BOARD.sub("", text))
    if "\\" in text:
        text = _COMMAND.sub("", text)
    return " ".join(text.translate(_SIGNS).split())


def _strip_comments(text: str) -> str:
    # A pattern would look for the end of each comment again.
    parts, place = [], 0
    while (start := text.find("<!--", place)) >= 0 and (end := text.find("-->", start)) >= 0:
        parts.append(text[place:start])
        place = end + len("-->")
    return "".join((*parts, text[place:]))


# Letters with one sign, or two, between them, always the same.
_SPELLED = re.compile(r"(?<!\w)(?:\w([^\w]{1,2})\w(?:\1\w)+)(?!\w)")
# A shorter word is hardly two words of a rule.
_SHORTEST_JOINED = 6
_LONG_WORD = re.compile(rf"[^\W\d_]{{{_SHORTEST_JOINED},}}")
# What follows is not read: reading takes time in proportion to the length and to that of the longest word.
_MOST_LETTERS = 20_000
# Share of the letters that have to be of known words: `something` and `information` begin with words of rules, too, but few words
# have twelve letters.
_KNOWN_OF_SHORT, _KNOWN_OF_LONG, _LONG, _FEW_LETTERS = 0.99, 0.4, 12, 2
# Words between those of rules, which would be taken for parts of them.
_FUNCTION_WORDS = frozenset(
    (
        "and", "the", "of", "to", "in", "is", "that", "it", "for", "you", "with", "this", "have", "then", "there", "about", "would",
        "und", "der", "die", "das", "ist", "nicht", "ein", "eine", "einen", "einem", "zu", "zur", "zum", "den", "dem", "von", "mit",
        "sich", "auf", "fur", "wird", "sagen", "schreiben", "gesagte", "gesagt", "man",
    )
)  # fmt: skip
# Costs: a known word, other letters, and each of these. Two short words within other letters cost more than the letters.
_OF_WORD, _OF_OTHER, _OF_LETTER, _NEVER = 1.9, 1.0, 1.0, float("inf")


def add_function_words(words: frozenset[str]) -> frozenset[str]:
    """Return the words of rules and the most frequent others, for `part_words`."""
    return words | _FUNCTION_WORDS


def part_words(text: str, words: frozenset[str]) -> str:
    """Return a text with spelled words joined, and with words that consist of known ones parted.

    >>> part_words("i,g,n,o,r,e previousrules", frozenset(("ignore", "previous", "rules")))
    'ignore previous rules'
    """
    joined = _SPELLED.sub(lambda match: match[0][:: 1 + len(match[1])], text)
    return _LONG_WORD.sub(lambda match: _part(match[0], words), joined)


@functools.lru_cache(maxsize=4096)
def _part(text: str, words: frozenset[str]) -> str:
    """Return the cheapest way to read letters as known words and letters between them, or the text itself without two words."""
    if text in words:
        return text
    letters, rest = text[:_MOST_LETTERS], text[_MOST_LETTERS:]
    parts = _find_cheapest(letters, words)
    are_known = [part for part in parts if part in words]
    least = _KNOWN_OF_LONG if len(letters) >= _LONG else _KNOWN_OF_SHORT
    are_words = sum(len(part) > _FEW_LETTERS for part in are_known) > 1 and len("".join(are_known)) >= least * len(
        letters
    )
    return f"{' '.join(parts)}{rest}" if are_words else text


def _find_cheapest(letters: str, words: frozenset[str]) -> list[str]:
    """Return the parts of the cheapest reading (Viterbi 1967): known words, and what is between them."""
    beginnings = _list_beginnings(words)
    count = len(letters)
    # For each end: the cost, and where the last part begins, if that is a known word and if it is not.
    of_words = [(0.0, 0)] + [(_NEVER, 0)] * count
    other = [(_OF_OTHER, 0)] * (count + 1)
    for start in range(count):
        cost = min(of_words[start][0], other[start][0]) + _OF_WORD
        end = start + 1
        while end <= count and (part := letters[start:end]) in beginnings:
            if cost < of_words[end][0] and part in words:
                of_words[end] = (cost, start)
            end += 1
        goes_on, begins = other[start][0], of_words[start][0] + _OF_OTHER
        first = other[start][1] if goes_on <= begins else start
        other[start + 1] = (min(goes_on, begins) + _OF_LETTER, first)
    parts, end = [], count
    while end:
        start = min(of_words[end], other[end])[1]
        parts.append(letters[start:end])
        end = start
    return parts[::-1]


@functools.lru_cache(maxsize=4)
def _list_beginnings(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word[:end] for word in words for end in range(1, len(word) + 1))


# Of both encodings: eight bytes in hex, twelve in base64.
_SHORTEST_CODE = 16
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
    tokens = [] if len(text) >= LONG and not has_run(text, _BASE64_SIGNS, _SHORTEST_CODE) else _BASE64.findall(text)
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
    if len(groups) > 1 and len(token) >= _SHORTEST_CODE:
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
    if len(text) >= LONG and not has_run(text, _HEX_SIGNS, _SHORTEST_CODE):
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


DEPTH = 2
"""How often what was decoded is decoded again: base64 of rot13 is found, and a text cannot unfold without end."""
_LEET_SIGNS = "0134578@$"
# The sign comes first in the pattern: there are fewer signs than letters, and a search stops at each.
_LEET = re.compile(r"[0134578@$](?:(?<=[a-z].)|(?=[a-z]))")
_ROTATE = Alphabet(dict(zip(ascii_lowercase, ascii_lowercase[13:] + ascii_lowercase[:13], strict=True)))
_UNDO_LEET = Alphabet(dict(zip(_LEET_SIGNS, "oieastbas", strict=True)))
_UNDO_LEET_WITH_L = Alphabet(dict(zip(_LEET_SIGNS, "oleastbas", strict=True)))


def read_forms(text: str, words: frozenset[str] = frozenset(), depth: int = DEPTH) -> Iterator[str]:
    """Yield the forms of a text in lower case. `words` are those that letters without blanks between them are parted into."""
    normal = normalise(text)
    folded = fold_marks(normal)
    yield folded
    marked = _read_plain(text, normal)
    plain = fold_marks(marked)
    if plain != folded:
        yield plain
    parted = part_words(plain, words)
    if parted != plain:
        yield parted
    if any(sign in plain for sign in _LEET_SIGNS) and _has_leet(plain):
        yield _UNDO_LEET(plain.replace("11", "ll"))
        if "1" in plain:
            yield _UNDO_LEET_WITH_L(plain)
    if depth:
        # Rotating leaves umlauts as they are.
        yield fold_marks(rotate(marked))
        for inner in decode(text):
            if inner:
                yield from read_forms(inner, words, depth - 1)


def _read_plain(text: str, normal: str) -> str:
    """Return a text in its normal form without markup, and with its references read."""
    read = read_references(text)
    return strip_markup(normal if read == text else normalise(read))


def _has_leet(text: str) -> bool:
    return has_pair(text, _LEET_SIGNS, ascii_lowercase) if len(text) >= LONG else _LEET.search(text) is not None


def rotate(text: str) -> str:
    """Return a text in lower case with the 13 letters after each of its own (rot13).

    >>> rotate("vtaber nyy")
    'ignore all'
    """
    has_letters = text.isascii() or len(text) < LONG or has_any(text, ascii_lowercase)
    return _ROTATE(text) if has_letters else text
