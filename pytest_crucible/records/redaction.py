"""The forms of services' keys: what each begins with, and what follows."""

from __future__ import annotations

import dataclasses
import html
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

_HEX, _ALNUM, _SAFE = "[0-9a-f]", "[A-Za-z0-9]", r"[\w-]"
_UUID = rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
# What follows -> the beginnings of keys, as services document them, and as gitleaks and detect-secrets look for them. Where a
# service says that its lengths may change, a shorter one is enough.
_BEGINNINGS = {
    rf"{_ALNUM}{{28,}}": "npm_ nfp_ ntn_ r8_ gsk_ xai- pplx- csk- pcsk_ secret_",
    rf"{_SAFE}{{28,}}": "github_pat_ pypi- nvapi- tgp_v1_ fo1_ HRKU- wandb_v1_ ddpat_ figd_ KGAT_",
    rf"{_SAFE}{{20,}}": "gldt- glrt- glcbt- glptt- glft- glsoat- glimt- glagent- gloas- hvs. hvb. hvr. lin_api_ lin_oauth_ jina_ "
    "sq0atp- sq0csp- dckr_pat_ dckr_oat_ GOCSPX- tskey-auth- tskey-api- tskey-client- whsec_ CFPAT- phx_",
    rf"{_ALNUM}{{20,}}": "fw_ tfp_ pnu_ rdme_ tk-us-",
    r"[\w.=+/-]{14,}": "pscale_tkn_ pscale_pw_ pscale_oauth_ rzp_live_ FLWSECK-",
    r"[A-Za-z0-9+/=_]{32,}": "glc_ sntrys_",
    r"[\w.-]{24,}": "ya29. dp.pt. dp.st. dp.ct. dp.sa.",
    rf"{_SAFE}{{100,}}": "sl.",
    rf"{_HEX}{{60,}}": "dop_v1_ doo_v1_ dor_v1_ sntryu_",
    rf"{_HEX}{{32}}\b": "key- dapi",
    rf"{_HEX}{{40}}\b": "sqp_ squ_ sqa_ sbp_ pul- bkua_",
    rf"{_HEX}{{48}}\b": "rubygems_",
    r"[0-9a-fA-F]{32}\b": "shpat_ shpss_ shpca_ shppa_",
    rf"{_SAFE}{{16,}}\.{_SAFE}{{16,}}": "SG.",
    rf"{_ALNUM}{{24}}\b(?!\()": "s.",
    r"eyJ[\w-]{20,}\.[\w-]{16,}": "sk.",
    r"[A-Z2-7]{24}\.[A-Z2-7]{60,}": "dt0c01.",
    rf"{_ALNUM}{{32}}_{_HEX}{{8}}": "glsa_",
    rf"{_HEX}{{32}}_{_HEX}{{10}}": "lsv2_pt_ lsv2_sk_",
    r"[A-Z0-9]{27}\b": "NRAK-",
    rf"{_HEX}{{24}}-{_HEX}{{34}}": "PMAK-",
    rf"{_HEX}{{64}}-{_ALNUM}{{16}}": "xkeysib-",
    _UUID: "pat-na1- pat-eu1- sdk- api-",
    rf"{_ALNUM}{{20,}}_{_HEX}{{40}}": "CCIPAT_",
    r"1[0-9A-Z]{58}": "AGE-SECRET-KEY-",
    r"\d-[A-Z0-9]+-\d+-[a-z0-9]{16,}": "xapp-",
    r"xox[bp]-[\w-]{16,}": "xoxe.",
    r"T\w{6,}/B\w{6,}/\w{16,}": "hooks.slack.com/services/",
    r"\d{15,20}/[\w-]{60,}": "discord.com/api/webhooks/",
    r"[A-Z0-9]{16}\b": "ASIA",
    rf"{_ALNUM}{{20}}\b": "LTAI",
    r"[\w=-]{100,}": "ATATT3",
}
# A sign inside a key, what is before it, by length, and what is behind: Microsoft Entra, Telegram, Mailchimp, Terraform, Airtable.
_INSIDE_KEYS = (
    ("Q~", {4: r"[\w~.-]{3}\d"}, r"[\w~.-]{31,34}"),
    (":AA", {length: rf"\d{{{length}}}" for length in (8, 9, 10)}, r"[\w-]{33}"),
    ("-us", {32: rf"{_HEX}{{32}}"}, r"\d{1,2}\b"),
    (".atlasv1.", {14: rf"{_ALNUM}{{14}}"}, rf"{_SAFE}{{60,}}"),
    (".", {17: rf"pat{_ALNUM}{{14}}"}, rf"{_HEX}{{64}}"),
)
_SIGNS = "_-."
_NAMES = tuple(name for names in _BEGINNINGS.values() for name in names.split())
_ENDS_IN_SIGN = tuple(name for name in _NAMES if name[-1] in _SIGNS)
_LONGEST = max(map(len, _ENDS_IN_SIGN))
Find = Callable[[str], list[int]]


def _join_forms() -> str:
    # The digit tells a key from an identifier or a file name of the same form.
    named = (
        rf"(?:{'|'.join(map(re.escape, names.split()))})(?=[^\W\d]*\d|[\w./+=-]{{0,24}}\d){then}"
        for then, names in _BEGINNINGS.items()
    )
    inside = (
        f"(?:{'|'.join(reversed(before.values()))}){re.escape(sign)}{behind}" for sign, before, behind in _INSIDE_KEYS
    )
    return rf"(?<![A-Za-z0-9])(?:{'|'.join([*named, *inside])})"


KEY_PATTERN = _join_forms()
"""Matches a key from its start on."""


def _find_by_sign(sign: str) -> Find:
    """Return a function that lists where keys may begin whose beginning ends with a sign."""
    # Few signs of a text have so many letters behind them; looking at what is before takes longer.
    last = "".join(sorted({name[-2] for name in _ENDS_IN_SIGN if name[-1] == sign}))
    # In a long row of signs only the first can follow a name.
    sign_of_key = rf"(?<=[{last}].)(?=[\w+=-]{{14}}|\d-[A-Z0-9])"
    long_after = re.compile(rf"{re.escape(sign)}(?:{sign_of_key}|{re.escape(sign)}{{15,}}+)")
    names = tuple(name for name in _ENDS_IN_SIGN if name[-1] == sign)

    def find(text: str) -> list[int]:
        starts = []
        for match in long_after.finditer(text):
            before = text[max(0, match.end() - _LONGEST) : match.end()]
            if before.endswith(names):
                starts += [match.end() - len(name) for name in names if before.endswith(name)]
        return starts

    return find


def _find_pattern(pattern: str) -> Find:
    """Return a function that lists where a pattern matches in a text."""
    compiled = re.compile(pattern)
    return lambda text: [match.start() for match in compiled.finditer(text)]


def _find_by_inner_sign(sign: str, before: Mapping[int, str], behind: str) -> Find:
    """Return a function that lists where keys may begin that have a sign inside."""
    compiled = [
        (length, re.compile(rf"{re.escape(sign)}(?={behind})(?<=\b{form}{re.escape(sign)})"))
        for length, form in before.items()
    ]
    return lambda text: [match.start() - length for length, form in compiled for match in form.finditer(text)]


KEY_FINDERS: tuple[tuple[str, Find], ...] = (
    *((sign, _find_by_sign(sign)) for sign in _SIGNS),
    *((name, _find_pattern(re.escape(name))) for name in _NAMES if name[-1] not in _SIGNS),
    *((sign, _find_by_inner_sign(sign, before, behind)) for sign, before, behind in _INSIDE_KEYS),
)
"""A text that every key of a kind has, and the function that lists where such keys may begin."""


HIDDEN = "(key hidden)"
SERVICES = (
    *("tml", "sk", "rk", "pk", "hf", "ghp", "gho", "ghu", "ghs", "ghr", "glpat"),
    *("xoxa", "xoxb", "xoxp", "xoxr", "xoxs"),
)
_TOKEN = r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]+"  # a JSON Web Token
# Keys of well-known services, by their form.
_OF_SERVICES = rf"\b(?:{'|'.join(SERVICES)})[-_][\w-]{{16,}}|\bAKIA[0-9A-Z]{{16}}\b|\bAIza[\w-]{{30,}}|{KEY_PATTERN}"
# The shortest JSON Web Token, `eyJ12345678.a.b`. Most ids and answers are shorter.
SHORTEST_KEY = 15
_RUN = re.compile(r"[\w-]*")
# User and password of a URL: a run of characters up to an @, with a colon inside. The look ahead keeps the time linear.
_USER = r"(?<=://)(?=[^/\s@'\"]++@)[^/\s@'\"]*?:[^/\s@'\"]++(?=@)"


def _dash_of_service(dash: str) -> re.Pattern[str]:
    """Return a pattern of the dash in a service's key; its last group is the number of letters before the dash.

    >>> _dash_of_service("-").search("sk-0123456789abcdef").lastindex
    2
    """
    names = [[name for name in SERVICES if len(name) == length] for length in range(max(map(len, SERVICES)) + 1)]
    named = "|".join(rf"(?<=\b(?:{'|'.join(group)}).)()" if group else "(?!)()" for group in names[1:])
    # Most dashes follow another letter, or none; in a long run of dashes only the first can follow a name.
    last = "".join(sorted({name[-1] for name in SERVICES}))
    return re.compile(rf"{dash}(?:(?<=[{last}].)(?:{named})(?=[\w-]{{16}})|{dash}{{15,}}+)")


_USERS = re.compile(r"://(?=[^/\s@'\"]*+@)")


def _name_finder(dash: re.Pattern[str]) -> Find:
    """Return a function that lists where the names before the dashes of a text begin."""
    return lambda text: [match.start() - match.lastindex for match in dash.finditer(text) if match.lastindex]


# Finders of possible matches, each with a literal text in them: searching for that is ten times as fast as a pattern.
_USER_FINDERS: tuple[tuple[str, Find], ...] = (("://", lambda text: [match.end() for match in _USERS.finditer(text)]),)
_FINDERS = (
    *_USER_FINDERS,
    ("eyJ", _find_pattern(r"eyJ(?=[\w-]{8})")),
    ("AKIA", _find_pattern(r"AKIA(?<=\bAKIA)(?=[0-9A-Z]{16}\b)")),
    ("AIza", _find_pattern(r"AIza(?<=\bAIza)(?=[\w-]{30})")),
    *((dash, _name_finder(_dash_of_service(dash))) for dash in "-_"),
    *KEY_FINDERS,
)


def hider(secrets: Iterable[str] = ()) -> Callable[[str], str]:
    """Return a function that removes these secrets, and everything that looks like one, from a text.

    >>> hider({"tml-1"})("x-api-key: tml-1, https://me:secret@host/")
    'x-api-key: (key hidden), https://(key hidden)@host/'
    """
    # One may begin another.
    ordered = sorted({text for secret in secrets if secret for text in _spellings(secret)}, key=len, reverse=True)
    secrets_first = tuple(map(re.escape, ordered))

    def hide(text: str) -> str:
        starts = _starts(text, ordered) if text else ()
        return _replace(text, *_patterns(secrets_first), sorted({*starts})) if starts else text

    return hide


# A session has few hiders, whose secrets grow while it opens its adapters.
@lru_cache(maxsize=16)
def _patterns(secrets: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the pattern of what is hidden, secrets first, and that without tokens.

    They take 5 ms to compile, which only a text with a possible match needs.
    """
    return (
        re.compile("|".join([*secrets, _TOKEN, _OF_SERVICES, _USER])),
        re.compile("|".join([*secrets, _OF_SERVICES, _USER])),
    )


def _starts(text: str, secrets: Iterable[str]) -> list[int]:
    """Return every position at which a match may begin, and few others."""
    starts: list[int] = []
    for secret in secrets:
        if secret in text:
            starts += _positions(text, secret)
    for literal, find in _FINDERS if len(text) >= SHORTEST_KEY else _USER_FINDERS:
        if literal in text:
            starts += find(text)
    return starts


def _positions(text: str, literal: str) -> Iterator[int]:
    position = text.find(literal)
    while position >= 0:
        yield position
        position = text.find(literal, position + 1)


def _replace(text: str, pattern: re.Pattern[str], without_tokens: re.Pattern[str], starts: Iterable[int]) -> str:
    """Return the text without its matches, as `pattern.sub` would, which tries every position."""
    parts, end = [], 0
    for match in _matches(text, pattern, without_tokens, starts):
        parts += [text[end : match.start()], HIDDEN]
        end = match.end()
    return "".join((*parts, text[end:])) if parts else text


def _matches(
    text: str, pattern: re.Pattern[str], without_tokens: re.Pattern[str], starts: Iterable[int]
) -> Iterator[re.Match[str]]:
    end, barren = 0, 0
    for start in starts:
        if start < end:
            continue
        # In a run of letters that is no JSON Web Token no part of it is one: each would read to the end of the run again.
        match = (without_tokens if start < barren else pattern).match(text, start)
        if match is not None:
            yield match
            end = match.end()
        elif start >= barren and text.startswith("eyJ", start):
            run = _RUN.match(text, start)
            barren = run.end() if run else 0


def key_places(text: str) -> Iterator[tuple[int, int]]:
    """Yield where keys of services, JSON Web Tokens and logins of URLs begin and end: a hider removes these in any case.

    >>> list(key_places("x-api-key: tml-0123456789abcdef"))
    [(11, 31)]
    """
    starts = sorted({*_starts(text, ())})
    yield from (match.span() for match in _matches(text, *_patterns(()), starts))


def redact(data: Any, hide: Callable[[str], str]) -> Any:
    """Return JSON data or records with every text redacted, names of fields too.

    >>> redact({"tml-1": "tml-1", "tml-2": 2}, hider({"tml-1", "tml-2"}))
    {'(key hidden)': '(key hidden)', '(key hidden) 2': 2}
    """
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, dict):
        fields: dict[Any, Any] = {}
        for name, value in data.items():
            fields[_free_name(hide(name) if isinstance(name, str) else name, fields)] = redact(value, hide)
        return fields
    if isinstance(data, list | tuple):
        return type(data)(redact(item, hide) for item in data)
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        fields = {
            field.name: redact(getattr(data, field.name), hide) for field in dataclasses.fields(data) if field.init
        }
        return dataclasses.replace(data, **fields)
    return data


def _free_name(name: Any, fields: dict[Any, Any]) -> Any:
    """Return the name, numbered where another field has become equal to it: no value is lost."""
    if name not in fields:
        return name
    return next(numbered for k in itertools.count(2) if (numbered := f"{name} {k}") not in fields)


def _spellings(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and as URLs, JSON, Python's repr and HTML write it: servers return what they were sent."""
    yield secret
    # A variable that is not valid UTF-8 holds surrogates.
    raw = secret.encode(errors="surrogateescape")
    yield from (quote(raw), quote(raw, safe=""), quote_plus(raw), html.escape(secret))
    for written in (json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret)):
        yield written[1:-1]
