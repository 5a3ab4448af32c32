"""Secrets that a name before them tells: `DB_PASSWORD=...`, `Authorization: Bearer ...`, `the password is ...`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from pytest_crucible.detectors.places import Place, drop_overlapping, find_in_any_width, is_placeholder, make_spans
from pytest_crucible.records.outcomes import Span
from pytest_crucible.records.redaction import key_places

FOREIGN = "contraseña|mot de passe|senha|wachtwoord|hasło|пароль|密码|密碼|パスワード|비밀번호".split("|")
STEMS = (*"pass pwd psk kennwort key token secret auth cred sig sess securestring".split(), *FOREIGN)
"""Of which every text with such a name has one."""
# A name ends with one of these words, or with one of them and what tells one such value from another.
_SECRET_NAME = (
    r"(?P<stem>passwords?|passwd|passphrase|passcode|passwort|kennwort|pwd|psk|pass|secret|token|keys?|credentials?|auth|sig"
    rf"|session[_-]?id|sessid|securestring|{'|'.join(FOREIGN)})"
    r"(?:[_.-]?(?:\d{1,3}|base|prod|dev|live|staging|value|primary|secondary|main|old|new|raw|text|private))?"
)
_BETWEEN = "|".join(
    (
        # `"name": value`, `name := value`, `name: str = value`, `| name | value`
        r"\\?[\"'`*)\]]{0,3}\s{0,3}(?::\s{0,2}(?:str|string|String)\s{0,2}=|:=|=>|->|={1,3}|:|\||\t)",
        # `'name', 'value'`, `name" value="value"`, `name: x\nvalue: value`, `"name" { default = value`, `<name>value</name>`
        r"[\"']\s{0,3},\s{0,3}(?=[\"'])",
        r"[\"']?\s{0,20},?\s{0,20}[\"']?value[\"']?\s{0,2}[:=]",
        r"[\"']?\s{0,3}\{\s{0,20}default\s{0,3}=",
        r">(?=[^<\s]{6,200}</)",
        # `name("value")`, `name("user", "value")`, `name 'value'`
        r"=?\((?:[\"'][^\"'\n]{1,60}[\"'],\s{0,3})?(?=[\"'])",
        r"\s{1,2}(?=[\"'`])",
        # `name for x is now value`, in English, German, Spanish, French, Italian and Portuguese
        r"(?:\s(?:for|of|to|on|from|für|von|zum?)(?:\s[\w.@'-]{1,30}){1,4}?)?"
        r"\s(?:(?:is|was|ist|war|lautet|heißt|es|est|è|é)(?:\s(?:now|still|jetzt|set\sto))?|to|set\sto|auf):?",
    )
)
# The value is looked ahead for: `<add key="password" value="...">` has two names.
ASSIGNMENT = re.compile(
    rf"{_SECRET_NAME}(?:(?P<between>{_BETWEEN})|[ \t]{{1,3}})(?=\s{{0,3}}(?:\\?(?P<quote>[\"'`]))?(?P<value>[^\s\"'`<>]{{6,200}}))",
    re.IGNORECASE,
)
AUTHORIZATION = re.compile(
    r"(?:(?P<header>authorization[\"']?\s{0,3}[:=,]\s{0,3}f?[\"']?)[\w-]{2,20}|\bbearer)\s{1,3}(?:(?:token|key)=)?[\"']?"
    r"(?P<value>[\w.~+/:-]{8,2000}={0,2})",
    re.IGNORECASE,
)
# A line of .pgpass: host, port, database, user and password.
PGPASS = re.compile(r"^[\w.*-]{1,99}:(?:\d{2,5}|\*):[\w.*-]{1,60}:[\w.*-]{1,60}:(?P<value>\S{6,200})$", re.MULTILINE)
LOGIN = re.compile(
    r" (?:(?:-u|--user|--userpwd)[ =][\"']?[\w.@-]{1,60}:|(?<=sshpass )-p ?[\"']?|(?<=mysql )(?:-u ?\w+ )?-p[\"']?)"
    r"(?P<value>[^\s\"'`<>]{6,200})"
)
NEXT = re.compile(r"\\[nrt\"']|[;&,](?=\s?[\w. -]{1,40}=)|[,;](?=[\"'{}\]]|$)|[}\])](?=[,;}\]]|$)")
"""What follows an unquoted value in a connection string, a query, or a text in JSON."""
PASSWORDS = frozenset(
    (*"password passwords passwd passphrase passcode passwort kennwort pwd psk pass".split(), *FOREIGN)
)
QUALIFIERS = frozenset(
    (
        "access", "account", "admin", "aes", "api", "app", "application", "auth", "authentication", "aws", "azure", "bearer",
        "bot", "client", "consumer", "deploy", "encryption", "github", "gitlab", "hmac", "id", "jwt", "license", "master",
        "npm", "oauth", "openai", "personal", "private", "refresh", "registration", "root", "secret", "security", "server",
        "service", "session", "shared", "signing", "storage", "subscription", "user", "vault", "webhook",
    )
)  # fmt: skip
"""Before "key", "token" or "secret" these make the name of a secret."""
OTHERS = frozenset(
    (
        "bos", "cache", "cls", "continuation", "csrf", "dedup", "end", "eos", "foreign", "group", "host", "idempotency",
        "index", "known", "mask", "max", "min", "next", "num", "object", "pad", "page", "partition", "prev", "primary",
        "public", "publishable", "row", "s3", "sep", "shard", "sort", "special", "start", "stop", "sync", "unk", "unique",
    )
)  # fmt: skip
"""Before "key" or "token" these make the name of something else."""
WORD = re.compile(
    r"[^\W\d_a-z]*|[^\W\d_]?[^\W\d_A-Z]*|[a-z]{2,}(?:[A-Z][a-z]{2,})+|[A-Z]{1,3}[a-z]{2,}(?:[A-Z]{1,3}[a-z]{2,})*"
)
# A name in code: `secret_key = s3_connection`.
VARIABLE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z][a-z0-9]*)+")
# In a sentence: `the password is base64-encoded`.
WORDS = re.compile(r"[^\W\d_]+\d{0,3}(?:[-/][^\W\d_]+\d{0,3})+")


# Before a name, read backwards.
_REACH = 60
_IDENTIFIER, _WORD_BEFORE = re.compile(rf"[\w.-]{{0,{_REACH}}}"), re.compile(r" [^\W\d_]{1,20}")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_END_OF_SENTENCE = ".,;:!?)"
_COLONS_OF_PGPASS = 4
_SECRETS = ("secret", "credential", "credentials", "securestring", "pass")
_FEWEST, _FEWEST_OF_KEY, _FEWEST_OF_TOKEN = 6, 8, 16
# Letters of a word that may be joined to the one before: `dbpassword`.
_FEWEST_JOINED = 8


class _Name(NamedTuple):
    """The kind of value that a name announces."""

    is_password: bool
    is_qualified: bool
    """`api_key`, `SECRET`: a value of eight characters is enough."""
    is_variable: bool
    """`DB_PASSWORD`: its value may be a word."""
    is_flag: bool
    """`--password`: a blank is between name and value."""


def find_assigned(text: str) -> Iterator[Place]:
    """Yield the values whose name says that they are secret; not those that only stand in for one."""
    lowered = text.lower()
    if any(stem in lowered for stem in STEMS):
        yield from _find_by_name(text)
    if "bearer" in lowered or "authorization" in lowered:
        yield from _find_authorizations(text)
    if " -" in text:
        yield from _find_values(LOGIN, text)
    if text.count(":") >= _COLONS_OF_PGPASS:
        yield from _find_values(PGPASS, text)


def _find_by_name(text: str) -> Iterator[Place]:
    for match in ASSIGNMENT.finditer(text):
        end = _end_of_value(match)
        name = _read_name(text, match)
        if name is not None and _is_secret(match["value"][: end - match.start("value")], match, name):
            yield match.start("value"), end


def _find_authorizations(text: str) -> Iterator[Place]:
    """Yield the credentials of headers; without the header's name, those of the scheme Bearer."""
    for match in AUTHORIZATION.finditer(text):
        value = match["value"]
        is_secret = _has_digit_or_case(value) if match["header"] else _looks_random(value)
        if is_secret and not is_placeholder(value):
            yield match.span("value")


def _find_values(pattern: re.Pattern[str], text: str) -> Iterator[Place]:
    for match in pattern.finditer(text):
        if not is_placeholder(match["value"]):
            yield match.span("value")


def _end_of_value(match: re.Match[str]) -> int:
    value = match["value"]
    if not match["quote"]:
        following = NEXT.search(value)
        value = (value[: following.start()] if following else value).rstrip(_END_OF_SENTENCE)
    return match.start("value") + len(value.rstrip("\\"))


def _read_name(text: str, match: re.Match[str]) -> _Name | None:
    """Return what a name says; None for the name of something else."""
    before = text[max(0, match.start() - _REACH) : match.start()]
    head, stem = _read_last(_IDENTIFIER, before), match["stem"]
    is_password = stem.lower() in PASSWORDS and (stem.lower() != "pass" or bool(head))
    if not head:
        # `api key: ...`
        parts = [_read_last(_WORD_BEFORE, before).strip(" ").lower()]
    else:
        parts = [part.lower() for part in _PARTS.findall(head)] or [""]
        is_joined = head[-1].isalpha() and not (stem[0].isupper() and head[-1].islower())
        # `monkey` and `bypass` do not end with such a word.
        if is_joined and len(stem) < _FEWEST_JOINED and parts[-1] not in QUALIFIERS:
            return None
    if parts[-1] in OTHERS and not is_password:
        return None
    is_qualified = stem.lower() in _SECRETS or parts[-1] in QUALIFIERS
    is_variable = bool(head) and (head + stem).isupper() and match["between"] is not None
    return _Name(is_password, is_qualified, is_variable, head.startswith("--"))


def _read_last(reversed_form: re.Pattern[str], text: str) -> str:
    """Return the characters at the end of a text that have a form, which is read backwards: that takes linear time."""
    match = reversed_form.match(text[::-1])
    return match[0][::-1] if match else ""


def _is_secret(value: str, match: re.Match[str], name: _Name) -> bool:
    between = match["between"] or ""
    in_sentence = any(map(str.isalpha, between))
    is_word = _is_word(value) or (in_sentence and WORDS.fullmatch(value) is not None)
    is_expression = (
        not match["quote"] and "=" in between and not name.is_variable and VARIABLE.fullmatch(value) is not None
    )
    if is_expression or is_placeholder(value):
        return False
    if (not between or (match["stem"].lower() == "pass" and not between.strip())) and not name.is_flag:
        # `PASSWORD hunter22`, `API key 0a1b...`: a word or a number after a blank is mostly no secret.
        return _is_mixed(value) if name.is_password else name.is_qualified and _looks_random(value)
    if name.is_password:
        may_be_word = name.is_variable or (match["quote"] is not None and "=" in between)
        return len(value) >= (_FEWEST_OF_KEY if is_word else _FEWEST) and (may_be_word or not is_word)
    if name.is_qualified or name.is_variable or name.is_flag:
        return len(value) >= _FEWEST_OF_KEY and not is_word and _has_digit_or_case(value)
    return _looks_random(value)


def _is_word(value: str) -> bool:
    """Return whether a value is a word, a name as code has them, or words joined by dashes: a secret has more than letters."""
    return all(WORD.fullmatch(part) for part in re.split(r"[-_/.]", value))


def _has_digit_or_case(value: str) -> bool:
    return any(map(str.isdigit, value)) or (value.lower() != value and value.upper() != value)


def _is_mixed(value: str) -> bool:
    """Return whether a value has eight characters of three kinds."""
    kinds = (str.islower, str.isupper, str.isdigit, lambda character: not character.isalnum())
    return (
        len(value) >= _FEWEST_OF_KEY
        and any(map(str.isdigit, value))
        and sum(any(map(kind, value)) for kind in kinds) >= 3
    )


def _looks_random(value: str) -> bool:
    """Return whether letters and digits take turns in a value, as in keys and not in identifiers."""
    if len(value) < _FEWEST_OF_TOKEN:
        return False
    if value.endswith("=") and value.lower() != value:
        return True
    turns = [_count_turns(part) for part in re.split(r"[-_./:]", value) if len(part) >= _FEWEST]
    return sum(turns) >= 3 and max(turns) >= 2


def _count_turns(part: str) -> int:
    return sum(first.isdigit() != other.isdigit() for first, other in pairwise(part))


SECRET_TYPES = ("API_KEY", "JSON_WEB_TOKEN", "PASSWORD", "PRIVATE_KEY", "URL_LOGIN")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----[^-]{0,20000}(?:-----END [A-Z ]{1,60}-----)?"
)
# A short name, a sign, and 32 letters of both cases and digits: keys of services that no list has. Other identifiers are shorter,
# or in hex. Behind `live` or `key` fewer are enough.
_KEY_BODY_START = re.compile(r"[_-](?=[A-Za-z0-9]{20})")
_OF_KEYS = ("live", "prod", "secret", "sk", "pat", "tok", "tkn", "token", "key", "api", "oauth", "auth", "pw", "admin")
_KEY_NAME = re.compile(r"[a-z][a-z0-9]{1,9}(?:[_-][a-z0-9]{1,6}){0,2}[_-]")
_NAME_REACH, _BODY = 24, re.compile(r"[A-Za-z0-9]{20,200}\b")
_FEWEST_OF_UNNAMED = 32
_HASHES = ("sha1-", "sha256-", "sha384-", "sha512-", "md5-")


def find_secrets(text: str) -> tuple[Span, ...]:
    """Return the secrets in a text, in order of place: what redaction removes from manifests, private keys and passwords.

    Values that only stand in for a secret, such as `your-key-here`, are left out.

    >>> find_secrets("password: tr0ub4dor")
    (Span(type='PASSWORD', start=10, end=19),)
    """
    return tuple(find_in_any_width(_find, text))


def _find(text: str) -> tuple[Span, ...]:
    findings = _find_keys(text)
    findings["PRIVATE_KEY"] = list(_find_private_keys(text))
    listed = [place for places in findings.values() for place in places]
    findings.setdefault("API_KEY", []).extend(drop_overlapping(_find_unlisted_keys(text), listed))
    findings["PASSWORD"] = list(find_assigned(text))
    return make_spans(findings)


def _find_keys(text: str) -> dict[str, list[Place]]:
    """Return the places of keys, tokens and logins by their type."""
    findings: dict[str, list[Place]] = {}
    for start, end in key_places(text):
        kind = _key_type(text, start, end)
        value = text[start:end]
        if not (
            is_placeholder(value.partition(":")[2]) if kind == "URL_LOGIN" else _is_name(value) or is_placeholder(value)
        ):
            findings.setdefault(kind, []).append((start, end))
    return findings


def _is_name(key: str) -> bool:
    """Return whether a key of a service has no digit and no capital: `hf_raise_for_status` is a function."""
    return key.islower() and not any(map(str.isdigit, key))


def _key_type(text: str, start: int, end: int) -> str:
    if text[end : end + 1] == "@" and text[max(0, start - 3) : start] == "://":
        return "URL_LOGIN"
    return "JSON_WEB_TOKEN" if text.startswith("eyJ", start) else "API_KEY"


def _find_private_keys(text: str) -> Iterator[Place]:
    return (match.span() for match in _PRIVATE_KEY.finditer(text)) if "PRIVATE KEY" in text else iter(())


def _find_unlisted_keys(text: str) -> Iterator[Place]:
    """Yield keys of services that no list has, by their form."""
    end = 0
    for match in _KEY_BODY_START.finditer(text):
        body = _BODY.match(text, match.end())
        name = _KEY_NAME.fullmatch(re.split(r"[^\w-]", text[max(end, match.end() - _NAME_REACH) : match.end()])[-1])
        if body and name and _is_key(name[0], body[0]):
            end = body.end()
            yield body.start() - len(name[0]), end


def _is_key(name: str, body: str) -> bool:
    if is_placeholder(body) or name.startswith(_HASHES):
        return False
    has_both_cases = any(map(str.isupper, body)) and any(map(str.islower, body))
    is_long = len(body) >= _FEWEST_OF_UNNAMED and has_both_cases and sum(map(str.isdigit, body)) > 1
    return is_long or (re.split("[_-]", name)[-2] in _OF_KEYS and any(map(str.isdigit, body)))
