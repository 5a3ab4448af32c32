"""Stop conditions of a reply: a token, a sequence of tokens, or a text that may span several tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pytest_crucible.local_model.tokens import Tokenizer

Stop: TypeAlias = str | int | tuple[int, ...]


class Stops:
    """Watches one reply grow. Texts are compared as bytes, because a token can end within a character."""

    def __init__(self, stop: Sequence[Stop] | None, tokenizer: Tokenizer) -> None:
        """Prepare the stops: None stops at the end token, an empty sequence never.

        An empty text or sequence raises ValueError.
        """
        stops = (tokenizer.eos,) if stop is None else tuple(stop)
        if empty := [item for item in stops if item in ("", ())]:
            raise ValueError(f"{empty[0]!r} cannot end a reply: it is empty")
        self._tokenizer = tokenizer
        # The text of a reserved token is never decoded, so that only its id can end a reply.
        stops = tuple(_id_of_reserved(item, tokenizer) for item in stops)
        self._tokens = [
            (item,) if isinstance(item, int) else tuple(item) for item in stops if not isinstance(item, str)
        ]
        self._texts = [item.encode("utf-8") for item in stops if isinstance(item, str)]
        self._longest = max(map(len, self._texts), default=0)
        self._tail = b""

    def text_before_end(self, tokens: list[int]) -> str | None:
        """Return the text before the stop that ends the reply, or None while it continues.

        Called after each new token.
        """
        for stop in self._tokens:
            if tokens[-1] == stop[-1] and tuple(tokens[-len(stop) :]) == stop:
                return self._tokenizer.decode(tokens[: -len(stop)])
        if not self._texts:
            return None
        new = self._tokenizer.bytes_of(tokens[-1:])
        recent = self._tail + new
        # A stop text may begin in earlier tokens; longer tails cannot contain its start.
        self._tail = recent[-(self._longest - 1) :] if self._longest > 1 else b""
        if not any(stop in recent for stop in self._texts):
            return None
        # Only now, once a reply: decoding the whole text after each token would be quadratic.
        whole = self._tokenizer.bytes_of(tokens)
        return whole[: min(whole.find(stop) for stop in self._texts if stop in whole)].decode("utf-8", errors="replace")


def _id_of_reserved(stop: Stop, tokenizer: Tokenizer) -> Stop:
    token = tokenizer.reserved_id(stop) if isinstance(stop, str) else None
    return stop if token is None else token
