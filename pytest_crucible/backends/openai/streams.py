"""Server-sent events of a streamed response, combined into the answer that would have come in one piece."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from pytest_crucible.records.errors import Retryable

Json = dict[str, Any]
# Tool calls of one message; a larger index is an error of the server, for which no memory is allocated.
MAX_CALLS = 1_000


class Stream:
    """Parses events as they arrive, and records when the first token came."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: Json = {}
        self._choices: dict[int, Json] = {}
        self._done = False
        self._broken = False
        self.first_token_at: float | None = None
        """Time by `time.perf_counter`."""

    def feed(self, piece: bytes) -> None:
        """Parse a piece of the body, which may end anywhere. Never raises: `answer` reports errors."""
        # A piece may end within a line, even within a character: only whole lines are decoded.
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            name, _, value = line.strip().partition(b":")
            if name == b"data":
                self._event(value.strip())

    def answer(self, where: str) -> Json:
        """Return the complete answer. Raises Retryable for invalid JSON and for a stream without end."""
        if self._broken:
            raise Retryable(f"{where} streamed invalid JSON", kind="garbage")
        # Some servers omit the final [DONE].
        ended = bool(self._choices) and all(choice["finish_reason"] for choice in self._choices.values())
        if not (self._done or ended or "error" in self._fields):
            raise Retryable(f"{where} broke off its stream", kind="half")
        return {**self._fields, "choices": list(self._choices.values())}

    def _event(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._done = True
            return
        try:
            event = json.loads(data)
            for name in ("model", "usage", "error"):
                if event.get(name):
                    self._fields[name] = event[name]
            for choice in event.get("choices") or ():
                self._add(choice)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            self._broken = True

    def _add(self, choice: Mapping[str, Any]) -> None:
        index = choice.get("index") or 0
        whole = self._choices.setdefault(index, {"index": index, "finish_reason": None, "logprobs": None})
        whole["finish_reason"] = choice.get("finish_reason") or whole["finish_reason"]
        delta = choice.get("delta")
        if delta is None:
            has_content = bool(choice.get("text"))
            whole["text"] = whole.get("text", "") + (choice.get("text") or "")
        else:
            has_content = _add_delta(whole.setdefault("message", {"content": None, "tool_calls": []}), delta)
        if has_content and self.first_token_at is None:
            self.first_token_at = time.perf_counter()
        if choice.get("logprobs"):
            whole["logprobs"] = _concatenate(whole["logprobs"] or {}, choice["logprobs"])


def _add_delta(message: Json, delta: Mapping[str, Any]) -> bool:
    """Add a delta to a message; return whether it had any content."""
    for name in ("content", "refusal", "reasoning_content", "reasoning"):
        # Some servers send reasoning as a record of its own, which is no text to add to; anything else must be text.
        if delta.get(name) and not (name == "reasoning" and not isinstance(delta[name], str)):
            message[name] = (message.get(name) or "") + delta[name]
    for call in delta.get("tool_calls") or ():
        _add_call(message["tool_calls"], call)
    return any(delta.get(name) for name in ("content", "refusal", "tool_calls", "reasoning_content", "reasoning"))


def _add_call(calls: list[Json], piece: Mapping[str, Any]) -> None:
    """Add a piece of a tool call: its name comes first, its arguments in pieces."""
    place = piece.get("index", len(calls))
    if not 0 <= place < MAX_CALLS:
        raise ValueError(f"invalid tool call index {place}")
    while len(calls) <= place:
        calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    call, function = calls[place], piece.get("function") or {}
    call["id"] = piece.get("id") or call["id"]
    call["function"]["name"] = function.get("name") or call["function"]["name"]
    call["function"]["arguments"] += function.get("arguments") or ""


def _concatenate(before: Json, more: Mapping[str, Any]) -> Json:
    """Concatenate the lists of log-probabilities, in either endpoint's form."""
    lists = ("content", "token_logprobs")
    return {name: [*(before.get(name) or ()), *(more.get(name) or ())] for name in lists}
