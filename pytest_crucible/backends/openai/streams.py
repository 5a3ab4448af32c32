"""Server-sent events, put together to the answer that would have come in one piece."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from pytest_crucible.errors import Retryable

Json = dict[str, Any]
MOST_CALLS = 1_000
"""Of one message: a number above it is a mistake, for which no room is made."""


class Stream:
    """Reads events as they come, and notes when the first token did."""

    def __init__(self) -> None:
        self._left = b""
        self._about: Json = {}
        self._choices: dict[int, Json] = {}
        self._done = False
        self._broken = False
        self.first_token_at: float | None = None
        """By `time.perf_counter`."""

    def feed(self, piece: bytes) -> None:
        """A piece of the body, which may end anywhere. It never raises: what is wrong is told by `answer`."""
        *lines, self._left = (self._left + piece).split(b"\n")
        for line in lines:
            name, _, value = line.strip().partition(b":")
            if name == b"data":
                self._event(value.strip())

    def answer(self, where: str) -> Json:
        """The whole. Raises Retryable for a stream that is no JSON or has no end."""
        if self._broken:
            raise Retryable(f"{where} streamed what is no JSON", kind="garbage")
        ended = bool(self._choices) and all(choice["finish_reason"] for choice in self._choices.values())
        if not (self._done or ended or "error" in self._about):
            raise Retryable(f"{where} broke off its stream", kind="half")
        return {**self._about, "choices": list(self._choices.values())}

    def _event(self, told: bytes) -> None:
        if told == b"[DONE]":
            self._done = True
            return
        try:
            event = json.loads(told)
            for name in ("model", "usage", "error"):
                if event.get(name):
                    self._about[name] = event[name]
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
            came = bool(choice.get("text"))
            whole["text"] = whole.get("text", "") + (choice.get("text") or "")
        else:
            came = _add_delta(whole.setdefault("message", {"content": None, "tool_calls": []}), delta)
        if came and self.first_token_at is None:
            self.first_token_at = time.perf_counter()
        if choice.get("logprobs"):
            whole["logprobs"] = _joined(whole["logprobs"] or {}, choice["logprobs"])


def _add_delta(message: Json, delta: Mapping[str, Any]) -> bool:
    """Add to a message; whether there was anything in it."""
    for name in ("content", "refusal"):
        if delta.get(name):
            message[name] = (message.get(name) or "") + delta[name]
    for call in delta.get("tool_calls") or ():
        _add_call(message["tool_calls"], call)
    return any(delta.get(name) for name in ("content", "refusal", "tool_calls", "reasoning_content", "reasoning"))


def _add_call(calls: list[Json], piece: Mapping[str, Any]) -> None:
    """A call comes with its name first, and its arguments in pieces."""
    place = piece.get("index", len(calls))
    if not 0 <= place < MOST_CALLS:
        raise ValueError(f"there is no call number {place}")
    while len(calls) <= place:
        calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    call, said = calls[place], piece.get("function") or {}
    call["id"] = piece.get("id") or call["id"]
    call["function"]["name"] = said.get("name") or call["function"]["name"]
    call["function"]["arguments"] += said.get("arguments") or ""


def _joined(before: Json, more: Mapping[str, Any]) -> Json:
    """Lists of either endpoint's form, one after the other."""
    lists = ("content", "token_logprobs")
    return {name: [*(before.get(name) or ()), *(more.get(name) or ())] for name in lists}
