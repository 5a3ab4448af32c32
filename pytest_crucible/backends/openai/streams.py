"""Server-sent events of a streamed response, combined into the answer that would have come in one piece."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from pytest_crucible.backends.protocol import bytes_of, longest_body
from pytest_crucible.records.errors import BackendError, Retryable

Json = dict[str, Any]
# Tool calls of one message; a larger index is an error of the server, for which no memory is allocated.
MAX_CALLS = 1_000
# A dictionary of one entry and its number.
_LOGPROB_BYTES = 200
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


class StreamedChoice:
    """Collects pieces and joins them once: adding each to a text would copy that text for each token."""

    def __init__(self, index: Any, limit: int) -> None:
        self.finish: Any = None
        self.is_cut = False
        """Whether it exceeded the limit: later pieces are dropped."""
        self._index = index
        self._limit = limit
        self._size = 0
        self._texts: dict[str, list[str]] = defaultdict(list)
        self._calls: list[Json] = []
        self._logprobs: dict[str, list[Any]] = defaultdict(list)
        self._is_message = False

    def add(self, piece: Mapping[str, Any]) -> bool:
        """Add a piece and return whether it had content. Raises TypeError, ValueError or AttributeError for a bad one."""
        if self.is_cut:
            return False
        self.finish = piece.get("finish_reason") or self.finish
        delta = piece.get("delta")
        if delta is None:
            self._add_text("text", piece.get("text"))
        else:
            self._is_message = True
            self._add_delta(delta)
        # In either endpoint's form; of the tokens themselves, because alternatives are many and not used.
        logprobs = piece.get("logprobs") or {}
        self._logprobs["content"] += [{"logprob": token.get("logprob")} for token in logprobs.get("content") or ()]
        self._logprobs["token_logprobs"] += logprobs.get("token_logprobs") or ()
        if self._size > self._limit:
            self.is_cut, self.finish = True, "length"
        if delta is None:
            return bool(piece.get("text"))
        return any(delta.get(name) for name in (*_TEXTS, "tool_calls"))

    @property
    def held(self) -> int:
        """The bytes that are held, about."""
        return self._size + _LOGPROB_BYTES * sum(map(len, self._logprobs.values()))

    def whole(self) -> Json:
        """Return the choice as it would have come in one piece."""
        texts: Json = {name: "".join(pieces) for name, pieces in self._texts.items()}
        choice = {"index": self._index, "finish_reason": self.finish, "logprobs": dict(self._logprobs) or None}
        if not self._is_message:
            return {**choice, "text": "", **texts}
        calls = []
        for call in self._calls:
            function = {"name": call["name"], "arguments": "".join(call["arguments"])}
            calls.append({"id": call["id"], "type": "function", "function": function})
        return {**choice, "message": {"content": None, **texts, "tool_calls": calls}}

    def _add_text(self, name: str, text: Any) -> None:
        if text:
            self._size += bytes_of(text)
            self._texts[name].append(text)

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        for name in _TEXTS:
            # Some servers send reasoning as an object, which cannot be appended to a text; anything else must be text.
            if not (name == "reasoning" and not isinstance(delta.get(name), str)):
                self._add_text(name, delta.get(name))
        for call in delta.get("tool_calls") or ():
            self._add_call(call)

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        """Add a piece of a tool call: its name comes first, its arguments in pieces."""
        place = piece.get("index", len(self._calls))
        if not 0 <= place < MAX_CALLS:
            raise ValueError(f"invalid tool call index {place}")
        while len(self._calls) <= place:
            self._calls.append({"id": "", "name": "", "arguments": []})
        call, function = self._calls[place], piece.get("function") or {}
        call["id"] = piece.get("id") or call["id"]
        call["name"] = function.get("name") or call["name"]
        if arguments := function.get("arguments"):
            self._size += bytes_of(arguments)
            call["arguments"].append(arguments)


# Choices of one answer; a server that sends more has an error, for which no memory is allocated.
MAX_CHOICES = 1_000


class Stream:
    """Parses events as they arrive, and records when the first token came."""

    def __init__(
        self,
        max_reply_bytes: int,
        choices: int = 1,
        receive: Callable[[str], None] | None = None,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """`choices` is how many were requested: the others are read when one has exceeded the limit.

        `receive` is called with each piece of the first choice's text, `begin` when the reply begins.
        """
        self._limit, self._expected, self._receive, self._begin = max_reply_bytes, choices, receive, begin
        self._rest: list[bytes] = []
        self._waiting = 0
        self._fields: Json = {}
        self._choices: dict[Any, StreamedChoice] = {}
        self._done = self._is_broken = False
        self.first_token_at: float | None = None
        """Time by `time.perf_counter`."""

    def feed(self, piece: bytes) -> bool:
        """Parse a piece of the body, which may end anywhere; return whether more is wanted. Never raises."""
        # A piece may end within a line, even within a character: only whole lines are decoded.
        end, *lines = piece.split(b"\n")
        self._rest.append(end)
        self._waiting += len(end)
        for line in lines:
            name, _, value = b"".join(self._rest).strip().partition(b":")
            if name == b"data":
                self._event(value.strip())
            self._rest, self._waiting = [line], len(line)
        return not (self._is_broken or self._is_too_long() or self._is_cut())

    @property
    def held(self) -> int:
        """The bytes that are held: of an event that has not ended, and of the choices."""
        return self._waiting + sum(choice.held for choice in self._choices.values())

    def answer(self, where: str) -> Json:
        """Return the complete answer. Raises Retryable for a broken stream, BackendError for an event without end."""
        if self._is_broken:
            raise Retryable(f"{where} streamed invalid JSON", kind="garbage")
        if self._is_too_long():
            longest = f"{longest_body(self._limit) / 1e6:,.0f} MB"
            raise BackendError(
                f"{where} streamed an event of more than {longest}; the rest was not read", kind="garbage"
            )
        # Some servers omit the final [DONE].
        if not (self._done or self._has_ended() or "error" in self._fields):
            raise Retryable(f"{where} broke off its stream", kind="half")
        return {**self._fields, "choices": [choice.whole() for choice in self._choices.values()]}

    def _has_ended(self) -> bool:
        return bool(self._choices) and all(choice.finish for choice in self._choices.values())

    def _is_too_long(self) -> bool:
        return self._waiting > longest_body(self._limit)

    def _is_cut(self) -> bool:
        choices = self._choices.values()
        return any(choice.is_cut for choice in choices) and len(choices) >= self._expected and self._has_ended()

    def _event(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._done = True
            return
        try:
            event = json.loads(data)
            for name in ("model", "system_fingerprint", "usage", "error"):
                if event.get(name):
                    self._fields[name] = event[name]
            for choice in event.get("choices") or ():
                self._add(choice)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            self._is_broken = True

    def _add(self, choice: Mapping[str, Any]) -> None:
        index = choice.get("index") or 0
        if index not in self._choices:
            if len(self._choices) >= MAX_CHOICES:
                raise ValueError("too many choices")
            self._choices[index] = StreamedChoice(index, self._limit)
        if not self._choices[index].add(choice):
            return
        if self.first_token_at is None:
            self.first_token_at = time.perf_counter()
            self._begin()
        if self._receive is not None and index == 0:
            delta = choice.get("delta")
            if text := choice.get("text") if delta is None else delta.get("content"):
                self._receive(text)
