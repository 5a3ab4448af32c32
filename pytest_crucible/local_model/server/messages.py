"""HTTP messages for the endpoints: requests, responses, and refusals that become responses."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import parse_qs

from pytest_crucible.records.type_names import describe_json_type

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

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

    def object(self) -> Mapping[str, Json]:
        """Return the body as a JSON object; refuse anything else."""
        try:
            body = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise bad_request(f"the body is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise bad_request(f"the body must be a JSON object, not {describe_json_type(body)}")
        return body

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
        """Return the bytes of the response."""
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
