"""Secrets that a name before them tells: `DB_PASSWORD=...`, `Authorization: Bearer ...`, `the password is ...`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from pytest_crucible.detectors.assignment_forms import (
    ASSIGNMENT,
    AUTHORIZATION,
    LOGIN,
    NEXT,
    OTHERS,
    PASSWORDS,
    PGPASS,
    QUALIFIERS,
    STEMS,
    VARIABLE,
    WORD,
    WORDS,
)
from pytest_crucible.detectors.placeholders import is_placeholder
from pytest_crucible.detectors.places import Place

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
        yield from _find_named(text)
    if "bearer" in lowered or "authorization" in lowered:
        yield from _find_authorizations(text)
    if " -" in text:
        yield from _find_values(LOGIN, text)
    if text.count(":") >= _COLONS_OF_PGPASS:
        yield from _find_values(PGPASS, text)


def _find_named(text: str) -> Iterator[Place]:
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
    return sum(one.isdigit() != other.isdigit() for one, other in pairwise(part))
