"""Answers in OpenAI's formats, written from replies: messages, tool calls, finish reasons, usage, events, errors.

write_event({"choices": []})      # b'data: {"choices":[]}' and an empty line
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar

from pytest_crucible.local_model.server.transport import Json
from pytest_crucible.records import Reply

DONE = b"data: [DONE]\n\n"
"""The last event of a stream of completions or chats."""


def write_event(content: Mapping[str, Any], name: str = "") -> bytes:
    """Return a server-sent event; with a name where the format has names."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    # Lone surrogates, which a byte-level tokenizer can produce, are not UTF-8.
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode("utf-8", errors="replace")


class SentText:
    """Collects the pieces of a streamed text, and compares them with the whole text at the end."""

    DIFFERS: ClassVar[str] = (
        "the reply does not begin with the pieces that were streamed: send the request without stream"
    )

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def __bool__(self) -> bool:
        """Return whether any text was sent."""
        return any(self._pieces)

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def rest(self, text: str) -> str | None:
        """Return what is left of the whole text; None if it begins otherwise."""
        sent = "".join(self._pieces)
        return text[len(sent) :] if text.startswith(sent) else None


def write_usage(read: int | None, written: int | None) -> dict[str, int]:
    """Return the numbers of tokens; an unknown number is 0, because clients add them up."""
    return {
        "prompt_tokens": read or 0,
        "completion_tokens": written or 0,
        "total_tokens": (read or 0) + (written or 0),
    }


def write_calls(reply: Reply, earlier: int = 0) -> list[dict[str, Any]]:
    """Return a reply's tool calls with id, type, and arguments as text.

    A call without an id is named by its place in the conversation, so that a deterministic agent sends equal messages again.
    `earlier` is the number of calls in the conversation before it.
    """
    return [_write_call(call, earlier + place) for place, call in enumerate(reply.tool_calls)]


def _write_call(call: Mapping[str, Any], place: int) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    written = {"name": str(function.get("name") or ""), "arguments": arguments}
    return {"id": str(call.get("id") or f"call_{place}"), "type": "function", "function": written}


def write_message(reply: Reply, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a reply as a message of a chat; its content is null where it only calls tools."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or (None if calls else ""), "refusal": None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    return {**message, "tool_calls": [*calls]} if calls else message


def finish_reason(reply: Reply) -> str:
    """Return the finish reason of a chat. Other ends of a reply, such as a guard's stand-in, are whole texts: `stop`."""
    if reply.finish in ("length", "content_filter"):
        return reply.finish
    return "tool_calls" if reply.tool_calls else "stop"


def write_logprobs(reply: Reply) -> list[dict[str, Any]]:
    """Return the log-probabilities of a reply. It has no tokens: their texts are empty, and there are no alternatives."""
    return [{"token": "", "logprob": value, "bytes": [], "top_logprobs": []} for value in reply.logprobs or ()]


_ERROR_TYPES = {
    HTTPStatus.UNAUTHORIZED: ("authentication_error", "invalid_api_key"),
    HTTPStatus.NOT_FOUND: ("invalid_request_error", "not_found"),
    HTTPStatus.TOO_MANY_REQUESTS: ("rate_limit_error", "rate_limit_exceeded"),
}


def write_error(sentence: str, status: int, code: str | None = None) -> dict[str, Json]:
    """Return an error's body; a code that is not given follows from the status."""
    otherwise = ("server_error" if status >= 500 else "invalid_request_error", None)
    kind, usual = _ERROR_TYPES.get(HTTPStatus(status), otherwise)
    return {"error": {"message": sentence, "type": kind, "param": None, "code": code or usual}}
