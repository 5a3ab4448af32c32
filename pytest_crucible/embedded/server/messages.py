"""HTTP messages as the endpoints see them: a request, a response, and a refusal that becomes one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import parse_qs

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

PROTOBUF = "application/x-protobuf"


class Refusal(Exception):
    """Ends a request with a status and a sentence: what was given, what was wanted."""

    def __init__(self, status: HTTPStatus, sentence: str, code: str | None = None) -> None:
        """`code` is the word for it in OpenAI's form, where there is a special one."""
        super().__init__(sentence)
        self.status, self.sentence, self.code = status, sentence, code


def bad_request(sentence: str) -> Refusal:
    """400: the request cannot be meant."""
    return Refusal(HTTPStatus.BAD_REQUEST, sentence)


def not_found(sentence: str) -> Refusal:
    """404: what is asked for is not here."""
    return Refusal(HTTPStatus.NOT_FOUND, sentence)


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case, the path is not decoded."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What stands in the path for an endpoint's `{name}`s."""

    def object(self) -> Mapping[str, Json]:
        """The body as a JSON object; anything else is a refusal."""
        try:
            body = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise bad_request(f"the body is no JSON: {error}") from None
        if not isinstance(body, dict):
            raise bad_request(f"the body must be a JSON object, not {type(body).__name__}")
        return body

    def whole_number(self, name: str, default: int) -> int:
        """A number from the query string."""
        given = parse_qs(self.query).get(name, [str(default)])[-1]
        if not (given.isascii() and given.isdigit() and len(given) < 10):
            raise bad_request(f"{name} must be a whole number that is not negative, not {given!r}")
        return int(given)


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back. `close` ends the connection after it."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b"{}"
    kind: str = "application/json"
    close: bool = False

    def to_bytes(self, *, close: bool, without_body: bool = False) -> bytes:
        """As it goes over the wire."""
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: {self.kind}\r\nContent-Length: {len(self.body)}\r\n"
            f"{'Connection: close' if close else 'Connection: keep-alive'}\r\n\r\n"
        )
        return head.encode("ascii") + (b"" if without_body else self.body)


def json_response(content: Json, status: HTTPStatus = HTTPStatus.OK, *, close: bool = False) -> Response:
    """A value as JSON; numbers that JSON cannot say raise ValueError."""
    body = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(status, body.encode("utf-8", errors="replace"), close=close)
