"""E-mail addresses, URLs and IP addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from pytest_crucible.detectors.places import Place

# At most ten labels: a domain has 253 characters.
_AT = re.compile(r"@([\w-]{1,63}(?:\.[\w-]{1,63}){1,10})")
# Before the @, read backwards: a pattern that began with it would look at each character up to 64 times.
_LOCAL = re.compile(r"[\w.+%'&/=~!#$-]{1,64}")
_QUOTES = "'.!#$&/=~%-"
_TOP_LEVEL = re.compile(r"(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{2,59})", re.IGNORECASE)
# The scheme is read backwards, too. Patterns that begin with a literal are searched ten times as fast as others.
_AFTER_SCHEME = re.compile(r"://[^\s<>\"'`{}|\\^\[\]]++")
_SCHEME = re.compile(r"(?:s?ptth|s?ptf|s?sw)(?!\w)", re.IGNORECASE)
_WWW = re.compile(r"[wW]{3}\.(?<![\w/@.-]....)[\w-]{1,63}\.[^\s<>\"'`{}|\\^\[\]]++")
_END_OF_SENTENCE = ".,;:!?)*_"
# Found by the first dot, with one to three digits before it.
_FOUR = re.compile(
    r"\.(?<!\.\d\.)(?=\d{1,3}\.\d)(?:(?<=\d.)(?<![\w.]\d.)|(?<=\d\d.)(?<![\w.]\d\d.)|(?<=\d\d\d.)(?<![\w.]\d\d\d.))"
    r"\d{1,3}(?:\.\d{1,3}){2}(?![\w])(?!\.\d)",
    re.ASCII,
)
# The two colons of a shortened address, or the seven of a whole one.
_COLONS = re.compile(r":(?::|(?:[0-9a-f]{1,4}:){6})", re.IGNORECASE)
_DIGITS = "0123456789"
_DIGIT = re.compile(r"[0-9]")
_SIX_PART = re.compile(r"[0-9a-f:.]{1,45}", re.IGNORECASE)
# Three groups, or one of three digits: `values[1::2]` and `a::b` are none.
_LIKE_SIX = re.compile(r"(?=.*\d)(?:.*[0-9a-f]{3}|.*[0-9a-f]+:+[0-9a-f]+:+[0-9a-f])", re.IGNORECASE)
# Numbers of sections and versions look like addresses of one digit in each place.
_SHORT_FOUR = re.compile(r"\d\.\d\.\d\.\d|0.*")
_ADDRESS_WORD = re.compile(
    r"\b(?:ips?|ipv4|address(?:es)?|hosts?|dns|servers?|ping|gateway|adressen?)\b[^\n]{0,20}$", re.IGNORECASE
)
_VERSION = re.compile(r"(?:\bv(?:ersion|er|\.)?|\brelease|\bSNMP) ?$", re.IGNORECASE)


def find_emails(text: str) -> Iterator[Place]:
    """Yield e-mail addresses; letters of any script may be in them."""
    for match in _AT.finditer(text):
        before = text[max(0, match.start() - 64) : match.start()][::-1]
        local = _LOCAL.match(before)
        # Quotation marks and slashes around an address are not part of it.
        length = len(local[0].rstrip(_QUOTES)) if local and before[0] not in _QUOTES else 0
        domain = match[1]
        if length and _TOP_LEVEL.fullmatch(domain.rpartition(".")[2]) and domain[0] != "-":
            yield match.start() - length, match.end()


def find_urls(text: str) -> Iterator[Place]:
    """Yield URLs that begin with a scheme or with `www.`, without the punctuation after them."""
    for match in _AFTER_SCHEME.finditer(text):
        scheme = _SCHEME.match(text[max(0, match.start() - 6) : match.start()][::-1])
        if scheme and len(match[0]) > len("://"):
            yield _trim_url(text, match.start() - scheme.end(), match.end())
    if "www" in text.lower():
        for match in _WWW.finditer(text):
            yield _trim_url(text, *match.span())


def _trim_url(text: str, start: int, end: int) -> Place:
    url = text[start:end]
    trimmed = url.rstrip(_END_OF_SENTENCE)
    # `(see https://en.wikipedia.org/wiki/Cat_(animal))`: a parenthesis that closes one of the URL's own is part of it.
    unclosed = trimmed.count("(") - trimmed.count(")")
    while unclosed > 0 and url[len(trimmed) : len(trimmed) + 1] == ")":
        trimmed, unclosed = url[: len(trimmed) + 1], unclosed - 1
    return start, start + len(trimmed)


def find_ip_addresses(text: str) -> Iterator[Place]:
    """Yield IPv4 and IPv6 addresses that the standard library reads. `version 1.2.3.4` is not one."""
    for match in _FOUR.finditer(text):
        dot = match.start()
        before = text[max(0, dot - 3) : dot]
        start = dot - len(before) + len(before.rstrip(_DIGITS))
        address = text[start : match.end()]
        if _is_address(address) and _reads_as_address(address, text[max(0, start - 30) : start]):
            yield start, match.end()
    end = 0
    for match in _COLONS.finditer(text):
        # Code has many pairs of colons, and no digits beside them.
        if match.start() >= end and _DIGIT.search(text, max(0, match.start() - 24), match.end() + 24):
            start, end = _address_around(text, match.start())
            if _LIKE_SIX.match(text, start, end) and _is_address(text[start:end]):
                yield start, end


def _address_around(text: str, place: int) -> tuple[int, int]:
    """Return the ends of the characters of an IPv6 address around a place; an empty part where a word goes on."""
    before = _SIX_PART.match(text[max(0, place - 45) : place][::-1])
    start = place - (before.end() if before else 0)
    after = _SIX_PART.match(text, place)
    end = after.end() if after else place
    end -= len(text[place:end]) - len(text[place:end].rstrip("."))
    is_apart = (
        not (start and (text[start - 1].isalnum() or text[start - 1] == "_")) and not text[end : end + 1].isalnum()
    )
    return (start, end) if is_apart else (end, end)


def _reads_as_address(address: str, before: str) -> bool:
    if _SHORT_FOUR.fullmatch(address):
        return _ADDRESS_WORD.search(before) is not None
    return _VERSION.search(before) is None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
