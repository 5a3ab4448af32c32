"""The texts that the argument `prompt` receives: forms of the prompt in files, or the adapters' variable of that name."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.adapters.opened_arm import PROMPT, OpenedArm, answering_arms, could_name_file, names_file
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import PromptForm
from pytest_crucible.records.errors import SpecError, closest_name
from pytest_crucible.session.experiment import BoundUnit, ExperimentDraft
from pytest_crucible.session.experiment_checks import check_fixture
from pytest_crucible.session.marks import experiment_mark
from pytest_crucible.stats.number_format import quantity

_HAS_VARIABLE = pytest.StashKey[bool]()
"""Marks the items of experiments whose `prompt` is a variable of the adapters."""


def check_prompt_fixture(request: pytest.FixtureRequest) -> None:
    """Fail a test that takes the fixture `prompt` and for which there is none: experiments bind it for each call."""
    marker = request.node.get_closest_marker("crucible")
    has_forms = marker is not None and "prompts" in marker.kwargs
    if not has_forms and not request.node.stash.get(_HAS_VARIABLE, False):
        pytest.fail(
            "fixture 'prompt' is the text of a file: name two or more in @pytest.mark.crucible(prompts=[...]), "
            "set variables.prompt in the adapter's table, or write a fixture 'prompt' of your own",
            pytrace=False,
        )


def bind_prompts(draft: ExperimentDraft) -> None:
    """Add the forms of the prompt, or the texts of the adapters' variable `prompt`, to the draft. Raises SpecError."""
    declared = read_names(draft.mark.features.get("prompts"))
    _check_argument(draft.function, declared)
    texts = read_texts(draft.item, declared)
    arm_texts = read_arm_prompts(draft.item, draft.function, declared, draft.arms)
    draft.item.stash[_HAS_VARIABLE] = bool(arm_texts)
    draft.fields["prompts"] = _forms(declared, texts)
    draft.fields["arm_prompts"] = {name: hash_prompt(text) for name, text in arm_texts.items()}
    if texts or arm_texts:
        check_fixture(draft.item, PROMPT)
        draft.arguments[PROMPT] = _PromptOf(texts, arm_texts)


@dataclass(frozen=True)
class _PromptOf:
    """Returns the text that the argument `prompt` receives for a unit."""

    texts: Sequence[str]
    """Those of the forms."""
    arm_texts: Mapping[str, str]
    """Those of the adapters' variable, by the name of the arm."""

    def __call__(self, bound: BoundUnit) -> str:
        if self.texts:
            return self.texts[bound.unit.variant % len(self.texts)]
        return self.arm_texts[bound.experiment.opened_arms[bound.unit.arm].arm.name]


def read_names(declared: Any) -> tuple[str, ...]:
    """Return the files of the prompts. Raises SpecError below two of them, and for one that is named twice."""
    if declared is None:
        return ()
    if isinstance(declared, str | Path) or not isinstance(declared, list | tuple):
        raise SpecError(
            f"@pytest.mark.crucible has prompts={declared!r}: write a list of files, each with one form of the prompt"
        )
    wrong = next((name for name in declared if not isinstance(name, str | Path)), None)
    if wrong is not None:
        raise SpecError(f"@pytest.mark.crucible has {wrong!r} among its prompts: write the name of a file")
    names = tuple(str(name) for name in declared)
    if len(names) < 2:
        raise SpecError(
            f"@pytest.mark.crucible has {quantity(len(names), 'prompt')}: give at least two forms of the prompt "
            "(a verdict needs three), or write the prompt into the test"
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"@pytest.mark.crucible names the prompt {twice!r} twice: name each once")
    return names


def _check_argument(function: Callable[..., Any], names: Sequence[str]) -> None:
    if names and PROMPT not in inspect.signature(function).parameters:
        raise SpecError(
            f"{function.__name__} has prompts= and no argument {PROMPT!r}: add the argument, which receives the text of one prompt"
        )


def read_texts(item: pytest.Item, names: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of prompts. Paths are relative to the test's folder or to pytest's root directory.

    Raises SpecError for a file that is missing or is not text, and for two files of one text.
    """
    texts = tuple(read_prompt(item, name) for name in names)
    for name, text in zip(names, texts, strict=True):
        first = names[texts.index(text)]
        if first != name:
            raise SpecError(f"the prompts {first!r} and {name!r} have the same text: keep one of them")
    return texts


def read_forms(item: pytest.Item) -> tuple[PromptForm, ...]:
    """Return the forms of the prompt that a marked item declares. Raises SpecError."""
    names = read_names(experiment_mark(item).features.get("prompts"))
    return _forms(names, read_texts(item, names))


def _forms(names: Sequence[str], texts: Sequence[str]) -> tuple[PromptForm, ...]:
    forms = (PromptForm(name=name, sha256=hash_prompt(text)) for name, text in zip(names, texts, strict=True))
    return tuple(forms)


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


# -- the variable of adapters ---------------------------------------------------------------------------------------


def read_arm_prompts(
    item: pytest.Item, function: Callable[..., Any], declared: Sequence[str], arms: Sequence[OpenedArm]
) -> dict[str, str]:
    """Return the text of the variable `prompt` by arm, also by member of a family; empty if no arm has one.

    Raises SpecError for a test without the argument, for `prompts=` in its marker, for an unknown file, for an arm without the
    variable if others have it, and for two members of a family whose prompts have one text.
    """
    answering = list(answering_arms(arms))
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
