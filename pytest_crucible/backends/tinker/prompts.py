"""Prompts as token ids: of texts, of messages through the tokenizer's chat template, or as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.records.errors import BackendError, Refused
from pytest_crucible.records.type_names import describe_type

_MEDIA = frozenset({"image", "image_url", "input_image", "audio", "input_audio", "video", "video_url", "file"})
"""Types of a message's parts that are not text."""


def prompt_tokens(prompt: Any, tokenizer: Any) -> list[int]:
    """Return the token ids of an input; for an empty text the end token, because a model has to read something.

    Raises Refused for an input that is not a text, messages or tokens, BackendError for an input that cannot be encoded.
    """
    if isinstance(prompt, Sequence) and prompt and all(type(part) is int for part in prompt):
        return list(prompt)
    is_chat = not isinstance(prompt, str) and isinstance(prompt, Sequence) and prompt
    if not isinstance(prompt, str) and not (is_chat and all(isinstance(part, Mapping) for part in prompt)):
        raise Refused(
            f"Tinker cannot sample from {describe_type(prompt)}: give a text, messages with role and content, or token ids"
        )
    if is_chat:
        _refuse_media(prompt)
    try:
        tokens = _chat_tokens(prompt, tokenizer) if is_chat else list(tokenizer.encode(prompt))
    except ValueError as error:
        raise BackendError(f"the prompt cannot be encoded: {error}") from None
    end = getattr(tokenizer, "eos_token_id", None)
    return tokens or ([end] if end is not None else [])


def _refuse_media(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raise Refused for a picture or a recording: a chat template may drop it without a word."""
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list | tuple) else ():
            if isinstance(part, Mapping) and part.get("type") in _MEDIA:
                raise Refused(
                    f"a message has a part of type {part['type']!r}, and backend 'tinker' sends texts only: "
                    "use backend 'openai' and the service's OpenAI-compatible endpoint"
                )


def _chat_tokens(messages: Sequence[Mapping[str, Any]], tokenizer: Any) -> list[int]:
    if getattr(tokenizer, "chat_template", None) is None:
        raise Refused("this model has no chat template for messages: give a text")
    try:
        text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    except TypeError as error:
        raise Refused(f"Tinker cannot sample from these messages: {error}") from None
    except ImportError as error:
        raise Refused(f'chat templates need jinja2: pip install "pytest-crucible[tinker]" ({error})') from None
    # Templates raise errors of their own, for instance for roles that do not alternate.
    except Exception as error:
        raise BackendError(f"the model's chat template cannot render these messages: {error}") from None
    # The template has written the special tokens already.
    return list(tokenizer.encode(text, add_special_tokens=False))
