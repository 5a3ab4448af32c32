"""From the texts of a row to tokens, as the model that learns from them will be asked: by its own tokenizer and template."""

from __future__ import annotations

from typing import Any, Protocol

from pytest_crucible.embedded.chat import finished
from pytest_crucible.embedded.tokens import Tokenizer


class Encoder(Protocol):
    """Prompts end where a reply begins; completions end as a reply should end."""

    @property
    def tokenizer(self) -> Any: ...

    def prompt(self, text: str) -> list[int]: ...

    def completion(self, text: str) -> list[int]: ...

    def conversation(self, messages: Any) -> tuple[list[int], list[int]]:
        """Prompt and completion, which is the last message. Raises TypeError for what is no conversation."""
        ...


class EmbeddedEncoder:
    """Of the embedded model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def prompt(self, text: str) -> list[int]:
        return self.tokenizer.encode(text) or [self.tokenizer.eos]

    def completion(self, text: str) -> list[int]:
        return [*self.tokenizer.encode(text), self.tokenizer.eos]

    def conversation(self, messages: Any) -> tuple[list[int], list[int]]:
        prompt, completion = finished(messages)
        return self.prompt(prompt), self.completion(completion)


class TemplateEncoder:
    """Of a tokenizer with transformers' manners. A conversation is what its chat template makes of it."""

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
        prompt = render(messages[:-1], tokenize=False, add_generation_prompt=True)
        whole = render(messages, tokenize=False, add_generation_prompt=False)
        if not whole.startswith(prompt):
            raise TypeError("this model's chat template changes earlier messages when the answer is added")
        return self._bare(prompt), self._bare(self._to_its_end(whole[len(prompt) :]))

    def _bare(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _to_its_end(self, answer: str) -> str:
        """Without what a template sets after the token at which sampling stops."""
        end, cut = getattr(self.tokenizer, "eos_token", None), answer.rstrip()
        return cut if end and cut.endswith(end) else answer
