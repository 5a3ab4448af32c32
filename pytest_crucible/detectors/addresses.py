"""E-mail addresses, URLs and IP addresses."""

from __future__ import annotations

import ipaddress
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from pytest_crucible.detectors.places import Place, drop_overlapping

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
# The two colons of a shortened address, or the first six of a whole one.
_COLONS = re.compile(r":(?::|(?:[0-9a-f]{1,4}:){5})", re.IGNORECASE)
_DIGITS = "0123456789"
_DIGIT = re.compile(r"[0-9]")
_MOST_OF_SIX = 45
# One character more than an address has tells that a run is longer.
_SIX_PART = re.compile(rf"[0-9a-f:.]{{1,{_MOST_OF_SIX + 1}}}", re.IGNORECASE)
# Three groups, or one of three digits: `values[1::2]` and `a::b` are none.
LIKE_SIX = re.compile(r"[0-9a-f](?:[0-9a-f]{2}|:+[0-9a-f]+:+[0-9a-f])", re.IGNORECASE)
_GROUPS, _GROUP = 8, "[0-9a-f]{1,4}"
_WHOLE_SIX = re.compile(rf"(?:{_GROUP}:){{{_GROUPS - 1}}}{_GROUP}", re.IGNORECASE)
_SHORT_SIX = re.compile(rf"(?:{_GROUP}(?::{_GROUP})*)?::(?:{_GROUP}(?::{_GROUP})*)?", re.IGNORECASE)
# Numbers of sections and versions look like addresses of one digit in each place.
_ADDRESS_STEMS = ("ip", "address", "adresse", "host", "dns", "server", "ping", "gateway")
# Ip, ips, ipv4, address, addresses, adresse, adressen, host, hosts, dns, server, servers, ping, gateway.
_ADDRESS_WORD = re.compile(
    r"[iahdspg](?<!\w.)(?:(?<=i)p(?:s|v4)?|(?<=a)d(?:dress(?:es)?|ressen?)|(?<=h)osts?|(?<=d)ns|(?<=s)ervers?|(?<=p)ing"
    r"|(?<=g)ateway)\b",
    re.IGNORECASE,
)
# How far before a number such a word may end.
_REACH = 20
# A line may end behind them, too.
_ENDS_OF_VERSION = frozenset("vVrRnN.eEpP\n")
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
    if len(trimmed) == len(url):
        return start, end
    # `(see https://en.wikipedia.org/wiki/Cat_(animal))`: a parenthesis that closes one of the URL's own is part of it.
    unclosed = trimmed.count("(") - trimmed.count(")")
    while unclosed > 0 and url[len(trimmed) : len(trimmed) + 1] == ")":
        trimmed, unclosed = url[: len(trimmed) + 1], unclosed - 1
    return start, start + len(trimmed)


def find_ip_addresses(text: str) -> list[Place]:
    """Return IPv4 and IPv6 addresses that the standard library reads. `version 1.2.3.4` is not one.

    The end of `::ffff:1.2.3.4` is not one of its own.
    """
    fours, sixes = _drop_other_numbers(text, list(_find_fours(text))), list(_find_sixes(text))
    return [*drop_overlapping(fours, sixes), *sixes]


def _find_fours(text: str) -> Iterator[Place]:
    for match in _FOUR.finditer(text):
        dot = match.start()
        before = text[max(0, dot - 3) : dot]
        start = dot - len(before) + len(before.rstrip(_DIGITS))
        if is_address(text[start : match.end()]):
            yield start, match.end()


def _find_sixes(text: str) -> Iterator[Place]:
    end = 0
    for match in _COLONS.finditer(text):
        # Code has many pairs of colons, and no digits beside them.
        if match.start() >= end and _DIGIT.search(
            text, max(0, match.start() - _MOST_OF_SIX), match.end() + _MOST_OF_SIX
        ):
            start, end = _address_around(text, match.start())
            if is_six(text[start:end]):
                yield start, end


def _has_address_stem(text: str) -> bool:
    lowered = text.lower()
    # Letters of other scripts may be equal to these when case is ignored.
    return not text.isascii() or any(stem in lowered for stem in _ADDRESS_STEMS)


def _address_around(text: str, place: int) -> tuple[int, int]:
    """Return the ends of the characters of an IPv6 address around a colon; an empty part where more go on, or a word."""
    before = _SIX_PART.match(text[max(0, place - _MOST_OF_SIX - 1) : place][::-1])
    after = _SIX_PART.match(text, place)
    start = place - (before.end() if before else 0)
    end = after.end() if after else place
    last = start + len(text[start:end].rstrip("."))
    return (start, last) if end - start <= _MOST_OF_SIX and _is_apart(text, start, last) else (end, end)


def _is_apart(text: str, start: int, end: int) -> bool:
    """Return whether no word goes on before or behind a place."""
    before, behind = text[start - 1 : start], text[end : end + 1]
    return not (before.isalnum() or before == "_" or behind.isalnum())


def _drop_other_numbers(text: str, places: Sequence[Place]) -> list[Place]:
    """Return the places without those of numbers of sections and versions."""
    sections = {start for start, end in places if _is_section(text, start, end)}
    called = _find_called(text, sorted(sections)) if sections and _has_address_stem(text) else set()
    return [
        (start, end)
        for start, end in places
        if (start in called if start in sections else not _is_version(text, start))
    ]


def _is_section(text: str, start: int, end: int) -> bool:
    """Return whether an address begins with zero, or has one digit in each place."""
    return end - start == len("1.1.1.1") or text[start] == "0"


def _find_called(text: str, starts: Sequence[int]) -> set[int]:
    """Return the numbers that have a word such as "host" before them, on their line or at the end of the line above."""
    ends = [match.end() for match in _ADDRESS_WORD.finditer(text)]
    words = ((start, bisect_right(ends, start)) for start in starts)
    return {start for start, k in words if k and _is_near(text, ends[k - 1], start)}


def _is_near(text: str, end: int, start: int) -> bool:
    return start - end <= _REACH and "\n" not in text[end : start - 1]


def _is_version(text: str, start: int) -> bool:
    before = text[start - 2 : start] if start > 1 else text[:start]
    # Most texts have none of the last letters of these words before a number.
    return before.rstrip(" ")[-1:] in _ENDS_OF_VERSION and _VERSION.search(text[max(0, start - 30) : start]) is not None


def is_six(address: str) -> bool:
    """Return whether a text is an IPv6 address that does not look like code."""
    if not _DIGIT.search(address) or not LIKE_SIX.search(address):
        return False
    if "." in address:
        return is_address(address)
    # The standard library takes four times as long.
    if "::" in address:
        return _SHORT_SIX.fullmatch(address) is not None and sum(map(bool, address.split(":"))) < _GROUPS
    return _WHOLE_SIX.fullmatch(address) is not None


def is_address(text: str) -> bool:
    """Return whether a whole text is an IP address, of version 4 or 6."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
