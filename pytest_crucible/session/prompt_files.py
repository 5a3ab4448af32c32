"""Reads the files of an experiment's prompts."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.adapters.prompt_text import PROMPT
from pytest_crucible.records import PromptForm
from pytest_crucible.records.errors import SpecError, closest_name


def read_prompts(
    item: pytest.Item, function: Callable[..., Any], names: Sequence[str]
) -> tuple[tuple[PromptForm, ...], tuple[str, ...]]:
    """Return the forms of the prompt and their texts. Paths are relative to the test's folder or to pytest's root directory.

    Raises SpecError for a file that is missing or is not text, for two files of one text, and for a test without `prompt`.
    """
    if not names:
        return (), ()
    if PROMPT not in inspect.signature(function).parameters:
        raise SpecError(
            f"{function.__name__} has prompts= and no argument {PROMPT!r}: add the argument, which receives the text of one prompt"
        )
    texts = tuple(read_prompt(item, name) for name in names)
    for name, text in zip(names, texts, strict=True):
        first = names[texts.index(text)]
        if first != name:
            raise SpecError(f"the prompts {first!r} and {name!r} have the same text: keep one of them")
    forms = (PromptForm(name=name, sha256=hash_prompt(text)) for name, text in zip(names, texts, strict=True))
    return tuple(forms), texts


def hash_prompt(text: str) -> str:
    """Return the hash that identifies the text of a prompt."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_prompts(item: pytest.Item, name: str) -> list[Path]:
    """Return the files with this name: the one in the test's folder, then the one in pytest's root directory."""
    return [place for place in _places(item, name) if place.is_file()]


def _places(item: pytest.Item, name: str) -> list[Path]:
    return [item.path.parent / name, item.config.rootpath / name]


def read_prompt(item: pytest.Item, name: str) -> str:
    """Return the text of a prompt's file. Raises SpecError for one that is missing, is not text, or is empty."""
    paths, places = find_prompts(item, name), _places(item, name)
    if not paths:
        folders = " and ".join(dict.fromkeys(str(place.parent) for place in places))
        raise SpecError(f"there is no prompt {name!r} in {folders}: write the name of a file there{_near(places[0])}")
    path = paths[0]
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SpecError(f"the prompt {path} cannot be read as text: {error}") from error
    if not text.strip():
        raise SpecError(f"the prompt {path} is empty: write the prompt into it")
    return text


def _near(path: Path) -> str:
    """Return `; did you mean ...` for a file of nearly the same name."""
    names = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = closest_name(path.name, names)
    return f"; did you mean {near!r}?" if near else ""
