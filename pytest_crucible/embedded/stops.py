"""When a reply ends before its limit: at a token, at a sequence of tokens, or at a text, wherever tokens divide it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pytest_crucible.embedded.tokens import Tokenizer

Stop: TypeAlias = str | int | tuple[int, ...]


class Stops:
    """Watches one reply grow. Texts are compared as bytes, since a token can end within a character."""

    def __init__(self, stop: Sequence[Stop] | None, tokenizer: Tokenizer) -> None:
        """None stops at the end token, an empty sequence at nothing. An empty text or sequence raises ValueError."""
        stops = (tokenizer.eos,) if stop is None else tuple(stop)
        if empty := [one for one in stops if one in ("", ())]:
            raise ValueError(f"{empty[0]!r} cannot end a reply: it is empty")
        self._tokenizer = tokenizer
        self._tokens = [(one,) if isinstance(one, int) else tuple(one) for one in stops if not isinstance(one, str)]
        self._texts = [one.encode("utf-8") for one in stops if isinstance(one, str)]
        self._longest = max(map(len, self._texts), default=0)
        self._tail = b""

    def text_before_end(self, tokens: list[int]) -> str | None:
        """Called after each new token: the text before what ends the reply, or None when it goes on."""
        for stop in self._tokens:
            if tokens[-1] == stop[-1] and tuple(tokens[-len(stop) :]) == stop:
                return self._tokenizer.decode(tokens[: -len(stop)])
        if not self._texts:
            return None
        new = self._tokenizer.bytes_of(tokens[-1:])
        seen = self._tail + new
        self._tail = seen[-(self._longest - 1) :] if self._longest > 1 else b""
        if not any(stop in seen for stop in self._texts):
            return None
        whole = self._tokenizer.bytes_of(tokens)
        return whole[: min(whole.find(stop) for stop in self._texts if stop in whole)].decode("utf-8", errors="replace")
