"""One choice of a streamed answer, put together from its pieces up to the longest reply."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pytest_crucible.backends.reply_limit import bytes_of

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
        self._add_logprobs(piece.get("logprobs") or {})
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
        return {**choice, "message": {"content": None, **texts, "tool_calls": [*map(_whole_call, self._calls)]}}

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

    def _add_logprobs(self, logprobs: Mapping[str, Any]) -> None:
        """Add log-probabilities in either endpoint's form: the tokens' own, because alternatives are many and not used."""
        for token in logprobs.get("content") or ():
            self._logprobs["content"].append({"logprob": token.get("logprob")})
        self._logprobs["token_logprobs"] += logprobs.get("token_logprobs") or ()


def piece_text(piece: Mapping[str, Any]) -> str | None:
    """Return a piece's part of the reply's text, in either endpoint's form."""
    delta = piece.get("delta")
    text: str | None = piece.get("text") if delta is None else delta.get("content")
    return text


def _whole_call(call: Mapping[str, Any]) -> Json:
    function = {"name": call["name"], "arguments": "".join(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function}
