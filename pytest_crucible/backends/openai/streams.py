"""Server-sent events of a streamed response, combined into the answer that would have come in one piece."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from pytest_crucible.backends.openai.stream_choice import Json, StreamedChoice, piece_text
from pytest_crucible.backends.reply_limit import longest_body
from pytest_crucible.records.errors import BackendError, Retryable

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
        self._begin = begin
        self._limit = max_reply_bytes
        self._expected = choices
        self._receive = receive
        self._rest: list[bytes] = []
        self._waiting = 0
        self._fields: Json = {}
        self._choices: dict[Any, StreamedChoice] = {}
        self._done = False
        self._is_broken = False
        self.first_token_at: float | None = None
        """Time by `time.perf_counter`."""

    def feed(self, piece: bytes) -> bool:
        """Parse a piece of the body, which may end anywhere; return whether more is wanted. Never raises."""
        # A piece may end within a line, even within a character: only whole lines are decoded.
        end, *lines = piece.split(b"\n")
        self._rest.append(end)
        self._waiting += len(end)
        for line in lines:
            self._line(b"".join(self._rest))
            self._rest, self._waiting = [line], len(line)
        return not (self._is_broken or self._is_too_long() or self._is_cut())

    @property
    def held(self) -> int:
        """The bytes that are held: of an event that has not ended, and of the choices."""
        return self._waiting + sum(choice.held for choice in self._choices.values())

    def answer(self, where: str) -> Json:
        """Return the complete answer.

        Raises Retryable for invalid JSON and for a stream that broke off, BackendError for an event without end.
        """
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

    def _line(self, line: bytes) -> None:
        name, _, value = line.strip().partition(b":")
        if name == b"data":
            self._event(value.strip())

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
        if self._receive is not None and index == 0 and (text := piece_text(choice)):
            self._receive(text)
