"""Reads the texts of the adapters' variable `prompt`, which the argument `prompt` of a test function receives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.adapters.prompt_text import PROMPT, could_name_file, names_file
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.prompt_files import find_prompts, read_prompt


def read_arm_prompts(
    item: pytest.Item, function: Callable[..., Any], declared: Sequence[str], arms: Sequence[OpenedArm]
) -> dict[str, str]:
    """Return the text of the variable `prompt` by arm, also by member of a family; empty if no arm has one.

    Raises SpecError for a test without the argument, for `prompts=` in its marker, for an unknown file, for an arm without the
    variable if others have it, and for two members of a family whose prompts have one text.
    """
    answering = list(_answering_arms(arms))
    names = {opened.arm.name: opened.arm.variables[PROMPT] for opened in answering if PROMPT in opened.arm.variables}
    if not names:
        return {}
    first = next(iter(names))
    if declared:
        raise SpecError(
            f"{function.__name__} has prompts= and adapter {first!r} has variables.prompt: remove one of them"
        )
    if PROMPT not in inspect.signature(function).parameters:
        raise SpecError(
            f"adapter {first!r} has variables.prompt, and {function.__name__} has no argument 'prompt': add the argument, "
            "remove the variable, or deselect the test"
        )
    for opened in answering:
        if opened.arm.name not in names:
            raise SpecError(
                f"{function.__name__} takes the prompt of adapter {first!r}, and adapter {opened.arm.name!r} has none: "
                'add variables = { prompt = "..." } to its table'
            )
    texts = {arm: _read_text(item, name) for arm, name in names.items()}
    _check_members(arms, names, texts)
    return texts


def check_joined_prompts(arms: Sequence[OpenedArm]) -> None:
    """Raise SpecError for a variable `prompt` and a test that joins with its items: pytest binds its arguments."""
    for opened in _answering_arms(arms):
        if PROMPT in opened.arm.variables:
            raise SpecError(
                f"adapter {opened.arm.name!r} has variables.prompt, which needs a test that is marked crucible, and this is "
                "a joined test: give the variable another name and read crucible.sampler.variables"
            )


def _answering_arms(arms: Sequence[OpenedArm]) -> Iterator[OpenedArm]:
    """Yield the arms that send requests; the members of a family in its place."""
    for opened in arms:
        if opened.backend is not None:
            yield from opened.competitors or (opened,)


def _read_text(item: pytest.Item, name: str) -> str:
    """Return the text of the file with this name, else the text itself."""
    if not could_name_file(name):
        return name
    places = find_prompts(item, name)
    if len({path.read_bytes() for path in places}) > 1:
        raise SpecError(
            f"the prompt {name!r} has one text in {places[0].parent} and another in {places[1].parent}: remove one of the files"
        )
    return read_prompt(item, name) if places or names_file(name) else name


def _check_members(arms: Sequence[OpenedArm], names: dict[str, str], texts: dict[str, str]) -> None:
    """Raise SpecError for two prompts of a sweep that have one text: they would be compared with each other."""
    for opened in arms:
        named: dict[str, str] = {}
        for member in opened.competitors:
            name, text = names[member.arm.name], texts[member.arm.name]
            if named.setdefault(text, name) != name:
                raise SpecError(f"the prompts {named[text]!r} and {name!r} have the same text: keep one of them")
