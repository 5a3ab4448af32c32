"""Secrets in settings, in the environment and on the command line: recognised by names, and by where variables are filled in."""

from __future__ import annotations

import base64
import os
import re
import string
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, unquote_plus, urlsplit

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.redaction import hider

# Characters of the shortest secret. Shorter values may be ordinary words: removing them would garble texts.
SHORTEST = 6
_NAME = re.compile(
    r"(?:(?:^|[_-]|api|access|private)key|token|secret|password|passwd|authorization|credentials?|cookie)$",
    re.IGNORECASE,
)
_OF_A_TOKENIZER = re.compile(r"(?:bos|cls|end|eos|mask|pad|sep|start|stop|unk)[_-]?token$", re.IGNORECASE)
_NAMES_A_VARIABLE = "_env"
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)\}|(?P<named>[A-Za-z_]\w*))")
# The user and password of a URL.
_LOGIN = re.compile(r"(?<=://)[^/?#@]*(?=@)")
_NO_VARIABLES: Mapping[str, str] = {}


def is_secret(name: str) -> bool:
    """Return whether a setting of this name holds a secret.

    >>> [name for name in ("api_key", "OPENAI_API_KEY", "api_key_env", "max_tokens", "HF_TOKEN", "eos_token") if is_secret(name)]
    ['api_key', 'OPENAI_API_KEY', 'HF_TOKEN']
    """
    return _NAME.search(name) is not None and _OF_A_TOKENIZER.search(name) is None


def secrets_in(settings: Any, environment: Mapping[str, str] = _NO_VARIABLES) -> Iterator[str]:
    """Yield the secrets in settings: values with such a name, all headers, and parts of URLs and of `--name=value`.

    A variable of `environment` that headers, a URL's login or query, or a setting such as `api_key_env` name is a secret,
    under any name.

    >>> set(secrets_in({"base_url": "https://host/v1?user=$TEAM"}, {"TEAM": "crucible-7"}))
    {'crucible-7'}
    """
    for text in _candidates(settings, "", environment):
        if len(text) >= SHORTEST and not text.startswith("$"):
            yield text


def _candidates(value: Any, name: str, environment: Mapping[str, str]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            # Headers may be grouped in tables of their own.
            yield from _candidates(inner, name if _holds_headers(name) else str(key), environment)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _candidates(inner, name, environment)
    elif isinstance(value, str):
        yield from _in_text(value, name, environment)


def _in_text(text: str, name: str, environment: Mapping[str, str]) -> Iterator[str]:
    filled = string.Template(text).safe_substitute(environment)
    if is_secret(name) or _holds_headers(name):
        yield from _variables(text, environment)
        if not _VARIABLE.search(filled):
            # "Bearer KEY", and a list such as OTEL_EXPORTER_OTLP_HEADERS.
            yield from (filled, filled.partition(" ")[2], *(item.partition("=")[2] for item in filled.split(",")))
    elif name.lower().endswith(_NAMES_A_VARIABLE) and is_secret(name[: -len(_NAMES_A_VARIABLE)]):
        yield environment.get(text, "").strip()
    elif text.startswith("-"):
        option, _, value = text.partition("=")
        yield from _in_text(value, option, environment)
    else:
        yield from _in_url(text, filled, environment)


def _holds_headers(name: str) -> bool:
    return name.lower().endswith("headers")


def _variables(text: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of the variables that a text names."""
    for match in _VARIABLE.finditer(text):
        yield environment.get(match["braced"] or match["named"], "").strip()


def _in_url(text: str, filled: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in a URL; `filled` is the text with its variables filled in."""
    if "://" not in filled:
        return
    yield from _variables(text.partition("?")[2], environment)
    for login in _LOGIN.findall(text):
        yield from _variables(login, environment)
    try:
        parts = urlsplit(filled)
        yield from _in_login(parts.netloc.rpartition("@")[0], is_http=parts.scheme in ("http", "https"))
        for name, value in parse_qsl(parts.query):
            # What a variable brought along is as private as a variable in the query.
            if is_secret(name) or value not in unquote_plus(text):
                yield value
    except ValueError:
        # Not a URL after all, such as one with an unclosed bracket.
        return


def _in_login(login: str, *, is_http: bool) -> Iterator[str]:
    user, separator, password = login.partition(":")
    yield from (password, unquote(password))
    if separator:
        # Basic authentication sends both in this form.
        yield base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode(errors="surrogateescape")).decode()
    elif is_http:
        # A login without a password is a token; the user of a database is not.
        yield from (user, unquote(user))


# An escape of JSON or of Python, perhaps encoded several times. A run of backslashes is read once, from its start.
_ESCAPE = re.compile(r"(?<!\\)(\\++(?:[abfnrtv\"'/]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}))")


def process_hider() -> Callable[[str], str]:
    """Return a function that hides the keys of this process, and everything that looks like one, in a text."""
    return hider(secrets_in({"environment": dict(os.environ), "command": sys.argv}, os.environ))


def has_key(text: str) -> bool:
    """Return whether a text has a key in it."""
    return process_hider()(text) != text


def require_no_key(name: str, what: str) -> None:
    """Raise SpecError for a name that looks like a key: hidden where it is stored, it could not be told from another."""
    if has_key(name):
        raise SpecError(f"the {what} looks like a key, and keys are not stored: choose another name")


def hide_encoded(text: str, hide: Callable[[str], str]) -> str:
    r"""Return a text that may be JSON with its keys hidden: after an escaped line break, a key does not look like one.

    >>> hide_encoded('["see\\nsk-0123456789abcdef"]', hider())
    '["see\\n(key hidden)"]'
    """
    text = hide(text)
    if "\\" not in text:
        return text
    parts = _ESCAPE.split(text)
    parts[::2] = map(hide, parts[::2])
    return "".join(parts)


# Settings of clients: beside the key there may be an account, a profile, or another address.
_OF_CLIENTS = ("OPENAI_", "ANTHROPIC_", "AZURE_", "AWS_")
_ACCOUNTS = frozenset({"SSH_AUTH_SOCK", "GOOGLE_APPLICATION_CREDENTIALS"})


def is_secret_variable(name: str) -> bool:
    """Return whether an environment variable may hold a key or an account, which code that is only measured does not get.

    >>> is_secret_variable("AWS_PROFILE"), is_secret_variable("SEARCH_API_KEY"), is_secret_variable("HOME")
    (True, True, False)
    """
    return is_secret(name) or name.startswith(_OF_CLIENTS) or name in _ACCOUNTS
