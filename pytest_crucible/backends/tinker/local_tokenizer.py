"""The tokenizer of the local Tinker server's model, with the interface of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.local_model.tokens import TEMPLATE, Tokenizer, render_prompt


class LocalTokenizer:
    """Encodes, decodes and renders chats as a tokenizer of transformers does.

    The import of transformers alone would take seconds.
    """

    chat_template = TEMPLATE

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = tokenizer.eos

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return token ids. The model has no special tokens to add."""
        return self._tokenizer.encode(text)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Return text. The tokenizer writes nothing for special tokens, whether they are skipped or not."""
        return self._tokenizer.decode(token_ids)

    def apply_chat_template(self, messages: Any, *, tokenize: bool, add_generation_prompt: bool) -> str:
        """Return the messages as one text."""
        return render_prompt(messages)


def load_local_tokenizer(model: str) -> LocalTokenizer:
    """Return the tokenizer of a local model, whose name is the path of its directory."""
    return LocalTokenizer(Tokenizer.load(Path(model) / "tokenizer.json"))
