"""An arm of a session, with the backend that replies for it, and the files that it was trained on."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pytest_crucible.backends import Backend, KnowsItsSamples
from pytest_crucible.backends.protocol import find_innermost
from pytest_crucible.backends.stack import OuterWrapper
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Ancestor, Arm, Dataset, Role, TrainingResult
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import hash_file
from pytest_crucible.records.secret_settings import is_secret
from pytest_crucible.records.serialize import canonical


@dataclass(frozen=True)
class OpenedArm:
    """An arm and its backend, which is None for stored replies and for tests that call a model of their own."""

    arm: Arm
    backend: Backend | None
    members: tuple[OpenedArm, ...] = ()
    """The adapters that answer together, where the arm is an ensemble."""
    trainings: tuple[OpenedArm, ...] = ()
    """The trainings of one recipe that answer in turn, where the adapter has `seeds`; `backend` is then that of the first."""
    competitors: tuple[OpenedArm, ...] = ()
    """The members of a family, of which the winner takes the arm's place; `backend` is then that of the first."""
    helpers: Mapping[str, OpenedArm] = field(default_factory=dict)
    """Further models that the arm's test may ask, by role; the arm itself may be one."""
    of_feature: Any = None
    """What the feature that made the arm has to know of it, such as how the competitors compete."""
    adapter: Adapter | None = None
    """The adapter, where it is one model or an ensemble."""

    @property
    def parts(self) -> tuple[OpenedArm, ...]:
        """The members of an ensemble, the trainings of a recipe, or the members of a family, and the models of roles."""
        return (*self.members, *self.trainings, *self.competitors, *self.helpers.values())


def answering_arms(arms: Iterable[OpenedArm]) -> Iterator[OpenedArm]:
    """Yield the arms that send requests; the members of a family in its place."""
    for opened in arms:
        if opened.backend is not None:
            yield from opened.competitors or (opened,)


def collect_backends(opened: Iterable[OpenedArm]) -> tuple[Backend, ...]:
    """Return the backends of all arms and of their members, each once."""
    backends: dict[int, Backend] = {}
    for arm in opened:
        backends |= {id(backend): backend for backend in collect_backends(arm.parts)}
        if arm.backend is not None:
            backends[id(arm.backend)] = arm.backend
    return tuple(backends.values())


def collect_names(opened: Iterable[OpenedArm]) -> list[str]:
    """Return the names of all arms, of their members and of their trainings."""
    return [name for arm in opened for name in (arm.arm.name, *collect_names(arm.parts))]


def describe_arm(
    adapter: Adapter,
    role: Role,
    backend: Backend,
    *,
    root: Path,
    members: tuple[str, ...] = (),
    trained_on: Mapping[str, str],
    outer: Sequence[OuterWrapper] = (),
) -> Arm:
    """Return the record of an arm that this backend answers for, within `outer`. Files of prompts are below `root`."""
    variables = with_prompt_text(adapter.variables, root)
    training = getattr(backend, "training", None)
    return Arm(
        name=adapter.name,
        role=role,
        adapter=f"{adapter.backend}:{adapter.name}",
        identity=_identify(backend, variables, outer),
        parameters=adapter.parameters,
        simulated=backend.simulated,
        recorded=isinstance(find_innermost(backend), KnowsItsSamples),
        training=training if isinstance(training, TrainingResult) else None,
        step=getattr(backend, "step", None),
        members=members,
        trained_on=trained_on,
        ancestry=getattr(backend, "ancestry", ()),
        variables=adapter.variables,
        settings=model_settings(adapter.options),
        without_effect=getattr(backend, "without_effect", ""),
    )


_OF_TRANSPORT = frozenset({"api_key_env", "ca_file", "client", "headers", "latency_s", "stream", "transport", "verify"})
"""Settings on which no reply depends."""


def model_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that say which model answers and how it is asked, without secrets.

    >>> model_settings({"model": "v2", "system": "Be brief.", "api_key_env": "KEY"})
    {'model': 'v2', 'system': 'Be brief.'}
    """
    return {name: value for name, value in options.items() if name not in _OF_TRANSPORT and not is_secret(name)}


def _identify(backend: Backend, variables: Mapping[str, Any], outer: Sequence[OuterWrapper]) -> str:
    """Return the identity of a model with these variables, which other requests follow from, within these wrappers."""
    identity = backend.identity
    if variables:
        identity = hashlib.sha256(canonical([identity, dict(variables)]).encode()).hexdigest()
    for wrapper in outer:
        identity = hashlib.sha256(f"{identity} {wrapper.identity}".encode()).hexdigest()
    return identity


# -- the text of the variable `prompt`, which may name a file: it is part of an adapter's identity --------------------------------

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


# -- the files that an adapter was trained on -----------------------------------------------------------------------------------


def find_training_files(adapter: Adapter, backend: Backend, root: Path) -> dict[str, str]:
    """Return SHA-256 -> name of each training file that is known. Raises SpecError for a declared file that is missing."""
    declared = {sha256: name for name, sha256 in hash_declared_files(adapter, root).items()}
    return {**getattr(backend, "trained_on", {}), **declared}


def hash_declared_files(adapter: Adapter, root: Path) -> dict[str, str]:
    """Return name -> SHA-256 of each file that `trained_on` declares. Raises SpecError for a missing one."""
    return {name: _hash_file(adapter, name, root / Path(name).expanduser()) for name in adapter.trained_on}


def _hash_file(adapter: Adapter, name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SpecError(
            f"adapter {adapter.name!r} has trained_on = {[name]!r}, and {str(path)!r} cannot be read "
            f"({error.strerror or error}): correct the path, or remove it"
        ) from error


def join_ancestries(arms: Iterable[Arm]) -> tuple[Ancestor, ...]:
    """Return the trainings behind the weights of several arms, each once."""
    joined: list[Ancestor] = []
    for arm in arms:
        joined += (ancestor for ancestor in arm.ancestry if ancestor not in joined)
    return tuple(joined)


# -- recorded replies and the samples of a dataset ---------------------------------------------------------------------------------


def coverage_warnings(
    opened_arms: Sequence[OpenedArm], all_ids: Callable[[], Iterable[str]], dataset: Dataset
) -> Iterable[str]:
    """Yield a warning where recorded replies and samples do not match, with counts and the first name.

    `all_ids` returns the ids of the dataset of which the samples may be a part. Raises SpecError if no sample has a reply.
    """
    problems: list[str] = []
    for arm in opened_arms:
        yield from _members_coverage(arm, dataset)
        if not isinstance(arm.backend, KnowsItsSamples):
            continue
        dataset_ids = set(all_ids())
        answered = arm.backend.samples()
        missing = [sample.id for sample in dataset.samples if sample.id not in answered]
        extra = sorted(answered - dataset_ids)
        if missing and len(missing) == len(dataset.samples):
            problems.append(
                f"adapter {arm.arm.name!r} has a reply to none of the {len(missing)} samples of dataset {dataset.name!r}: "
                f"its replies are to {_first(answered)}, and the samples are {missing[0]!r:.80}, ...: give both the same ids"
            )
        elif missing:
            yield (
                f"adapter {arm.arm.name!r} lacks replies to {len(missing)} of {len(dataset.samples)} samples "
                f"(first: {missing[0]}): they will be lost"
            )
        if extra:
            yield (
                f"adapter {arm.arm.name!r} answers samples that dataset {dataset.name!r} does not have: "
                f"{len(extra)} (first: {extra[0]}); they are ignored"
            )
    if problems:
        raise SpecError("\n".join(problems))


def _first(names: Iterable[str]) -> str:
    name = min(names, default=None)
    return "nothing" if name is None else f"{name!r:.80}, ..."


def _members_coverage(ensemble: OpenedArm, dataset: Dataset) -> Iterable[str]:
    """Yield a warning for each member of an ensemble that lacks replies: the others answer without it."""
    sample_ids = [sample.id for sample in dataset.samples]
    for member in ensemble.members:
        answered = member.backend.samples() if isinstance(member.backend, KnowsItsSamples) else frozenset(sample_ids)
        missing = [name for name in sample_ids if name not in answered]
        if missing:
            yield (
                f"member {member.arm.name!r} of adapter {ensemble.arm.name!r} lacks replies to {len(missing)} of {len(sample_ids)} "
                f"samples (first: {missing[0]}): there the others answer without it"
            )


def training_files(arm: Arm, opened: OpenedArm) -> Mapping[str, str]:
    """Return SHA-256 -> name of the files that an arm was trained on; of a family, those of all members.

    `arm` is that of the plan, which also knows the files of a stored run.
    """
    members = [member.arm.trained_on for member in opened.competitors]
    return {sha256: name for files in (arm.trained_on, *members) for sha256, name in files.items()}


def suite_folders(root: Path, test: str) -> list[Path]:
    """Return the folders that the names of training files may count from: the configuration's, and those of the suite's modules."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    of_suite = {Path(file).parent for file in modules if file and Path(file).is_relative_to(root)}
    return [root, (root / test).parent, *sorted(of_suite)]


def find_file(name: str, sha256: str, folders: Iterable[Path]) -> Path:
    """Return the file of this name with this hash; without one, a file of this name, which has changed or is missing."""
    candidates = list(dict.fromkeys(folder / Path(name).expanduser() for folder in folders))
    there = [path for path in candidates if path.is_file()]
    return next((path for path in there if hash_file(path) == sha256), (there or candidates)[0])
