"""The code in a reply: its fenced blocks, as Markdown defines them. Each line is read once, so hostile text costs linear time."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_crucible.records.reasoning import reasoning_length

PYTHON = {"", "python", "py", "python3", "py3", "ipython", "pycon"}
# Repetitions are possessive (++, *+): without them a long row of backticks is tried again at each length.
# A fence may be in a list item or a quotation. More than 8 markers before it are not one.
_OPENING = re.compile(
    r"(?P<lead>[ \t]*+(?:(?:[-*+>]|\d{1,9}[.)])[ \t]*+){0,8}+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^\n]*+)\n"
)
_CLOSING = re.compile(r"[ \t>]*+(?P<fence>`{3,}+|~{3,}+)\s*+\Z")
_QUOTED = re.compile(r"^[ \t]*+>[ \t]?", re.MULTILINE)
_LANGUAGE = re.compile(r"[{.\s]{0,8}(\w*)")
_PROMPT = re.compile(r"^(?:>>>|\.\.\.)(?: |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """The content of one fence, without the indentation of its list item."""

    language: str
    code: str


def code_of(text: str) -> str:
    """Return the code in a reply: its first fenced block marked as Python or unmarked, else the whole text.

    A draft in a `<think>` block is left out; a fence that is never closed extends to the end.

    >>> code_of("Sure:\\n```python\\nx = 1\\n```\\nDone.")
    'x = 1\\n'
    """
    answer = answer_of(text)
    return next((block.code for block in split(answer)[0] if block.language in PYTHON), answer)


def answer_of(text: str) -> str:
    """Return a reply without its leading `<think>` block."""
    return text[reasoning_length(text) :]


def split(text: str) -> tuple[list[Block], str]:
    """Return the fenced blocks of a text, and the text between them."""
    blocks: list[Block] = []
    prose: list[str] = []
    lines = iter(text.splitlines(keepends=True))
    for line in lines:
        opening = _opening(line)
        if opening is None:
            prose.append(line)
        else:
            blocks.append(_read(opening, lines))
    return blocks, "".join(prose)


def _opening(line: str) -> re.Match[str] | None:
    opening = _OPENING.match(line)
    # Three backticks at both ends of a line are code inside a sentence.
    return None if opening is not None and opening["fence"][0] in opening["info"] else opening


def _read(opening: re.Match[str], lines: Iterator[str]) -> Block:
    """Read lines up to the closing fence, which is at least as long as the opening one."""
    fence, content, closed = opening["fence"], [], False
    for line in lines:
        closing = _CLOSING.match(line)
        if closed := closing is not None and closing["fence"].startswith(fence):
            break
        content.append(line)
    code = "".join(content)
    if not closed and code.rstrip().endswith(fence):
        # Some models close the fence at the end of the last line of code.
        code = code.rstrip().removesuffix(fence)
    language = _LANGUAGE.match(opening["info"])
    return Block(language[1].lower() if language else "", _unwrap(code, opening["lead"]))


def _unwrap(code: str, lead: str) -> str:
    """Remove the marks of a quotation, the indentation of a list item, and the prompts of an interactive session."""
    if ">" in lead:
        code = _QUOTED.sub("", code)
    if lead:
        code = textwrap.dedent(code)
    return _PROMPT.sub("", code) if code.startswith(">>> ") else code
