"""Typed access to fields of JSON bodies; an invalid field is refused with its name.

A field that is absent or null has its default; the default `...` means that it is required.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import EllipsisType
from typing import TypeVar

from pytest_crucible.local_model.server.transport import Json, Refusal, bad_request

Body = Mapping[str, Json]
T = TypeVar("T")


def text(body: Body, name: str, default: str | EllipsisType = ...) -> str:
    """Return a string.

    >>> text({"session_id": "s"}, "session_id")
    's'
    """
    value = body.get(name)
    if value is None:
        return _default(name, default)
    if not isinstance(value, str):
        raise _wrong(name, "a string", value)
    return value


def optional_text(body: Body, name: str) -> str | None:
    """Return a string; None if absent."""
    return None if body.get(name) is None else text(body, name)


def whole(body: Body, name: str, default: int | EllipsisType = ..., *, least: int = 0, most: int = 2**63 - 1) -> int:
    """Return a whole number within bounds."""
    value = body.get(name)
    if value is None:
        return _default(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(name, "a whole number", value)
    if not least <= value <= most:
        raise _wrong(name, f"between {least} and {most}", value)
    return value


def optional_whole(body: Body, name: str, *, least: int = 0, most: int = 2**63 - 1) -> int | None:
    """Return a whole number within bounds; None if absent."""
    return None if body.get(name) is None else whole(body, name, least=least, most=most)


def number(body: Body, name: str, default: float | EllipsisType = ..., *, least: float = -math.inf) -> float:
    """Return a finite number of at least `least`."""
    value = body.get(name)
    if value is None:
        return _default(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(name, "a finite number", value)
    if value < least:
        raise _wrong(name, f"at least {least}", value)
    return float(value)


def boolean(body: Body, name: str, default: bool | EllipsisType = ...) -> bool:
    """Return true or false."""
    value = body.get(name)
    if value is None:
        return _default(name, default)
    if not isinstance(value, bool):
        raise _wrong(name, "true or false", value)
    return value


def json_object(body: Body, name: str, default: Body | EllipsisType = ...) -> Body:
    """Return a JSON object."""
    value = body.get(name)
    if value is None:
        return _default(name, default)
    if not isinstance(value, Mapping):
        raise _wrong(name, "an object", value)
    return value


def texts(body: Body, name: str) -> list[str]:
    """Return a list of strings; empty if absent."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise _wrong(name, "a list of strings", value)
    return [text for text in value if isinstance(text, str)]


def texts_by_name(body: Body, name: str) -> dict[str, str] | None:
    """Return an object whose values are strings, such as metadata; other scalars become strings."""
    if body.get(name) is None:
        return None
    values = json_object(body, name)
    if any(isinstance(value, Mapping | list) for value in values.values()):
        raise _wrong(name, "an object of strings", values)
    return {key: value if isinstance(value, str) else str(value) for key, value in values.items()}


def whole_numbers(value: Json, name: str) -> list[int]:
    """Return a list of whole numbers that fit into 64 bits."""
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        raise _wrong(name, "a list of whole numbers", value)
    if value and not -(2**63) <= min(value) <= max(value) < 2**63:
        raise bad_request(f"{name}: a number is too large")
    return value


def _default(name: str, default: T | EllipsisType) -> T:
    if isinstance(default, EllipsisType):
        raise bad_request(f"{name} is missing")
    return default


def _wrong(name: str, expected: str, value: Json) -> Refusal:
    return bad_request(f"{name} must be {expected}, not {str(value)[:80]!r}")
