"""Encodes the texts of a training row exactly as prompts are encoded when the model is sampled: tokenizer and template."""

from __future__ import annotations

from typing import Any, Protocol

from pytest_crucible.local_model.chat import split_conversation
from pytest_crucible.local_model.tokens import Tokenizer


class Encoder(Protocol):
    """Prompts end where a reply begins; completions end as a reply should end."""

    @property
    def tokenizer(self) -> Any: ...

    def prompt(self, text: str) -> list[int]: ...

    def completion(self, text: str) -> list[int]: ...

    def conversation(self, messages: Any) -> tuple[list[int], list[int]]:
        """Return prompt and completion, which is the last message. Raises TypeError unless it is a conversation."""
        ...


class EmbeddedEncoder:
    """The tokenizer of the embedded model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def prompt(self, text: str) -> list[int]:
        # A model has to read something: an empty prompt is the end token, as when it is sampled.
        return self.tokenizer.encode(text) or [self.tokenizer.eos]

    def completion(self, text: str) -> list[int]:
        return [*self.tokenizer.encode(text), self.tokenizer.eos]

    def conversation(self, messages: Any) -> tuple[list[int], list[int]]:
        prompt, completion = split_conversation(messages)
        return self.prompt(prompt), self.completion(completion)


class TemplateEncoder:
    """A tokenizer with the interface of transformers; conversations are rendered by its chat template."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def prompt(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text)) or [self.tokenizer.eos_token_id]

    def completion(self, text: str) -> list[int]:
        return [*self._bare(text), self.tokenizer.eos_token_id]

    def conversation(self, messages: Any) -> tuple[list[int], list[int]]:
        if not isinstance(messages, list) or len(messages) < 2:
            raise TypeError("a conversation to learn from has at least two messages, the last of which is the answer")
        if getattr(self.tokenizer, "chat_template", None) is None:
            raise TypeError("this model has no chat template")
        render = self.tokenizer.apply_chat_template
        # The completion is the difference of two renderings, because templates write marks around the answer.
        prompt = render(messages[:-1], tokenize=False, add_generation_prompt=True)
        whole = render(messages, tokenize=False, add_generation_prompt=False)
        if not whole.startswith(prompt):
            raise TypeError("this model's chat template changes earlier messages when the answer is added")
        return self._bare(prompt), self._bare(self._to_its_end(whole[len(prompt) :]))

    def _bare(self, text: str) -> list[int]:
        # The template has written the special tokens already.
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _to_its_end(self, answer: str) -> str:
        """Cut the text that a template adds after the end token: a sampled reply would never contain it."""
        end, cut = getattr(self.tokenizer, "eos_token", None), answer.rstrip()
        return cut if end and cut.endswith(end) else answer
