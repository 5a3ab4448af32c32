"""Prompts as one text: messages one after the other."""

from __future__ import annotations

from typing import Any

from pytest_crucible.features.view.sample.texts import shown_text
from pytest_crucible.report.conversations import prompt_blocks


def prompt_text(sent: Any) -> str:
    """Return a prompt as a person reads it; the role stands before each message where it is not one text."""
    if not isinstance(sent, list):
        return shown_text(sent)
    return "\n\n".join(f"{shown_text(block.name)}: {shown_text(block.value)}" for block in prompt_blocks(sent))
