"""Prompts for Tinker: what a chat template could drop is refused."""

from __future__ import annotations

import pytest

from pytest_crucible.backends.tinker.backend import prompt_tokens
from pytest_crucible.records.errors import Refused


class Letters:
    """A tokenizer of code points, whose chat template reads texts and skips the rest."""

    chat_template = "{{ messages }}"

    def encode(self, text: str, **options: bool) -> list[int]:
        return [ord(letter) for letter in text]

    def apply_chat_template(self, messages: list, **options: bool) -> str:
        return "".join(part["text"] for message in messages for part in message["content"] if part["type"] == "text")


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "video", "file"])
def test_media_parts_are_refused(kind):
    content = [{"type": "text", "text": "What is this?"}, {"type": kind, kind: "..."}]
    with pytest.raises(
        Refused, match=f"a part of type '{kind}', and backend 'tinker' sends texts only: use backend 'openai'"
    ):
        prompt_tokens([{"role": "user", "content": content}], Letters())


def test_text_parts_are_read():
    content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    assert prompt_tokens([{"role": "user", "content": content}], Letters()) == [97, 98]
