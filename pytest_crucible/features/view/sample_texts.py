"""Texts of a sample's page: in parts that a browser lays out when they come into view, and with keys by which two are compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from pytest_crucible.records import Conversation
from pytest_crucible.records.reasoning import answer_text
from pytest_crucible.records.secret_settings import hide_encoded
from pytest_crucible.report.conversations import prompt_blocks
from pytest_crucible.report.printable import LONGEST_ESCAPE, printable

# Characters of a text on the page; the run store has all. A reply of 1 MB is whole.
MOST = 2_000_000
# Characters of a part: about what a screen shows.
A_PART = 8_000


def shown_text(value: Any, hide: Callable[[str], str] = str) -> str:
    """Return a text or plain data as the page shows it: controls as escapes, and without keys."""
    text = hide(value) if isinstance(value, str) else hide_encoded(_as_json(value), hide)
    cut = printable(text[:MOST], MOST * LONGEST_ESCAPE)
    return cut if len(text) <= MOST else f"{cut}... ({len(text) - MOST:,} characters more)"


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def prompt_text(sent: Any) -> str:
    """Return a prompt as one text; the role stands before each message where it is not one text."""
    if not isinstance(sent, list):
        return shown_text(sent)
    return "\n\n".join(f"{shown_text(block.name)}: {shown_text(block.value)}" for block in prompt_blocks(sent))


def text_parts(value: Any, hide: Callable[[str], str] = str) -> Iterator[str]:
    """Yield a text in parts that end with lines where they can."""
    text, start = shown_text(value, hide), 0
    while start < len(text):
        end = start + A_PART
        line = text.rfind("\n", start, end) + 1
        end = line if line and end < len(text) else end
        yield text[start:end]
        start = end


def reply_key(variant: int, arm: int, draw: int) -> str:
    """Return the key of a reply.

    >>> reply_key(0, 1, 2)
    'reply-0-1-2'
    """
    return f"reply-{variant}-{arm}-{draw}"


def prompt_key(variant: int) -> str:
    """Return the key of the prompt of a variant; 0 is the sample itself."""
    return f"prompt-{variant}"


def compared_reply(conversation: Conversation) -> str:
    """Return the part of a reply that is compared: what was scored, without the reasoning before it."""
    return answer_text(conversation.reply)
