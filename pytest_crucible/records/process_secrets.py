"""Keys that this process knows from its environment and command line, for texts that are stored or shown without a session."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.redaction import hider
from pytest_crucible.records.secret_settings import secrets_in

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
