"""The text of an adapter's variable `prompt`, which may name a file: the text is part of the adapter's identity."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError

PROMPT = "prompt"
"""The test's argument that receives the text, of a form of `prompts=` in the marker or of the adapter's variable of this name."""
_FILE_NAME = re.compile(r"\S+\.[A-Za-z]\w{0,7}")
"""A text without spaces that ends in a suffix: a misspelt file must not become a prompt of one word."""
_LONGEST_NAME = 255
"""In bytes. Longer texts are no names of files on common file systems, and looking for them is an error there."""


def names_file(prompt: str) -> bool:
    """Return whether a prompt has to be a file."""
    return could_name_file(prompt) and _FILE_NAME.fullmatch(prompt) is not None


def could_name_file(prompt: str) -> bool:
    """Return whether a file can have this name."""
    return len(prompt.encode()) <= _LONGEST_NAME and "\n" not in prompt


def with_prompt_text(variables: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
    """Return the variables with the text of the prompt's file instead of its name, if it is below pytest's root.

    A file next to a test is found only when that test is planned.
    """
    prompt = variables.get(PROMPT)
    if prompt is None or not could_name_file(prompt) or not (root / prompt).is_file():
        return variables
    try:
        return {**variables, PROMPT: (root / prompt).read_text(encoding="utf-8")}
    # The error is raised when a test that needs it is planned.
    except (OSError, ValueError):
        return variables


def freeze_prompt(adapter: Adapter, root: Path) -> Mapping[str, Any]:
    """Return the variables with the text of the prompt. Raises SpecError for a file that is not below pytest's root."""
    frozen = with_prompt_text(adapter.variables, root)
    if frozen is adapter.variables and names_file(str(frozen.get(PROMPT))):
        raise SpecError(
            f"adapter {adapter.name!r} has variables.prompt = {frozen[PROMPT]!r}, which does not exist below {root}, where "
            "the registry reads prompts: write its path from there, such as prompts/terse.txt"
        )
    return frozen
