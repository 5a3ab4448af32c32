"""Requests and responses of HTTP, the fields of JSON bodies, and refusals."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from types import EllipsisType
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qs

from pytest_crucible.records.type_names import describe_json_type

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
T = TypeVar("T")

PROTOBUF = "application/x-protobuf"


class Refusal(Exception):
    """Ends a request with a status and a message: what was given, what was expected."""

    def __init__(self, status: HTTPStatus, sentence: str, code: str | None = None) -> None:
        """`code` is OpenAI's specific error code, if there is one."""
        super().__init__(sentence)
        self.status, self.sentence, self.code = status, sentence, code


def bad_request(sentence: str) -> Refusal:
    """Return a refusal with status 400: the request is invalid."""
    return Refusal(HTTPStatus.BAD_REQUEST, sentence)


def not_found(sentence: str) -> Refusal:
    """Return a refusal with status 404: the requested thing does not exist."""
    return Refusal(HTTPStatus.NOT_FOUND, sentence)


class Body(dict[str, Json]):
    """The fields of a JSON object; an invalid one is refused with its name.

    A field that is absent or null has its default; the default `...` means that it is required.

    >>> Body({"session_id": "s"}).text("session_id")
    's'
    """

    def text(self, name: str, default: str | EllipsisType = ...) -> str:
        return self._read(name, str, "a string", default)

    def optional_text(self, name: str) -> str | None:
        return None if self.get(name) is None else self.text(name)

    def whole(self, name: str, default: int | EllipsisType = ..., *, least: int = 0, most: int = 2**63 - 1) -> int:
        """Return a whole number within bounds."""
        value = self._read(name, int, "a whole number", default)
        if not least <= value <= most:
            raise _wrong(name, f"between {least} and {most}", value)
        return value

    def optional_whole(self, name: str, *, least: int = 0, most: int = 2**63 - 1) -> int | None:
        """Return a whole number within bounds; None if absent."""
        return None if self.get(name) is None else self.whole(name, least=least, most=most)

    def number(self, name: str, default: float | EllipsisType = ..., *, least: float = -math.inf) -> float:
        """Return a finite number of at least `least`."""
        value = self._read(name, int | float, "a finite number", default)
        if not math.isfinite(value):
            raise _wrong(name, "a finite number", value)
        if value < least:
            raise _wrong(name, f"at least {least}", value)
        return float(value)

    def boolean(self, name: str, default: bool | EllipsisType = ...) -> bool:
        return self._read(name, bool, "true or false", default)

    def part(self, name: str, default: Mapping[str, Json] | EllipsisType = ...) -> Body:
        """Return an object within the object."""
        return Body(self._read(name, Mapping, "an object", default))

    def texts(self, name: str) -> list[str]:
        """Return a list of strings; empty if absent."""
        values: Any = self._read(name, list, "a list of strings", [])
        if not all(isinstance(value, str) for value in values):
            raise _wrong(name, "a list of strings", values)
        return list(values)

    def texts_by_name(self, name: str) -> dict[str, str] | None:
        """Return an object whose values are strings, such as metadata; other scalars become strings."""
        if self.get(name) is None:
            return None
        values = self.part(name)
        if any(isinstance(value, Mapping | list) for value in values.values()):
            raise _wrong(name, "an object of strings", dict(values))
        return {key: str(value) for key, value in values.items()}

    def _read(self, name: str, kind: Any, expected: str, default: T | EllipsisType) -> T:
        value: Any = self.get(name)
        if value is None:
            if isinstance(default, EllipsisType):
                raise bad_request(f"{name} is missing")
            return default
        # Python's true and false are whole numbers, too.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _wrong(name, expected, value)
        return value  # type: ignore[no-any-return]  # its kind was checked


def whole_numbers(value: Json, name: str) -> list[int]:
    """Return a list of whole numbers that fit into 64 bits."""
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        raise _wrong(name, "a list of whole numbers", value)
    if value and not -(2**63) <= min(value) <= max(value) < 2**63:
        raise bad_request(f"{name}: a number is too large")
    return value


def _wrong(name: str, expected: str, value: Json) -> Refusal:
    return bad_request(f"{name} must be {expected}, not {str(value)[:80]!r}")


@dataclass(frozen=True, slots=True)
class Request:
    """A request; header names are in lower case, the path is not decoded."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The segments of the path that match an endpoint's `{name}`s."""

    def object(self) -> Body:
        """Return the body as a JSON object; refuse anything else."""
        try:
            body = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise bad_request(f"the body is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise bad_request(f"the body must be a JSON object, not {describe_json_type(body)}")
        return Body(body)

    def query_text(self, name: str, default: str = "") -> str:
        """Return a text from the query string."""
        return parse_qs(self.query).get(name, [default])[-1]

    def whole_number(self, name: str, default: int) -> int:
        """Return a number from the query string."""
        text = self.query_text(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise bad_request(f"{name} must be a whole number from 0, not {text!r}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Response:
    """A response. `close` closes the connection after it."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b"{}"
    kind: str = "application/json"
    close: bool = False
    events: AsyncGenerator[bytes, None] | None = None
    """Parts of a body that comes as it is computed, after `body`; its end is that of the connection."""

    def to_bytes(self, *, close: bool, without_body: bool = False) -> bytes:
        length = f"Content-Length: {len(self.body)}\r\n" if self.events is None else ""
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: {self.kind}\r\n{length}"
            f"{'Connection: close' if close else 'Connection: keep-alive'}\r\n\r\n"
        )
        return head.encode("ascii") + (b"" if without_body else self.body)


def json_response(content: Json, status: HTTPStatus = HTTPStatus.OK, *, close: bool = False) -> Response:
    """Return a response with a value as JSON. Raises ValueError for numbers that JSON does not have."""
    body = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Lone surrogates, which a byte-level tokenizer can produce, are not UTF-8.
    return Response(status, body.encode("utf-8", errors="replace"), close=close)
