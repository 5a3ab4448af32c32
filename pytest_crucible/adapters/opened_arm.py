"""An arm of a session, with the backend that replies for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.prompt_text import with_prompt_text
from pytest_crucible.backends import Backend, KnowsItsSamples
from pytest_crucible.backends.protocol import find_innermost
from pytest_crucible.backends.stack import OuterWrapper
from pytest_crucible.records import Adapter, Arm, Dataset, Role, TrainingResult
from pytest_crucible.records.errors import SpecError
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
    of_feature: Any = None
    """What the feature that made the arm has to know of it, such as how the competitors compete."""
    adapter: Adapter | None = None
    """The adapter, where it is one model or an ensemble."""

    @property
    def parts(self) -> tuple[OpenedArm, ...]:
        """The members of an ensemble, the trainings of a recipe, or the members of a family."""
        return (*self.members, *self.trainings, *self.competitors)


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
    training = getattr(backend, "training", None)
    return Arm(
        name=adapter.name,
        role=role,
        adapter=f"{adapter.backend}:{adapter.name}",
        identity=_identify(backend, with_prompt_text(adapter.variables, root), outer),
        parameters=adapter.parameters,
        simulated=backend.simulated,
        recorded=isinstance(find_innermost(backend), KnowsItsSamples),
        training=training if isinstance(training, TrainingResult) else None,
        step=getattr(backend, "step", None),
        members=members,
        trained_on=trained_on,
        variables=adapter.variables,
    )


def _identify(backend: Backend, variables: Mapping[str, Any], outer: Sequence[OuterWrapper]) -> str:
    """Return the identity of a model with these variables, which other requests follow from, within these wrappers."""
    identity = backend.identity
    if variables:
        identity = hashlib.sha256(canonical([identity, dict(variables)]).encode()).hexdigest()
    for wrapper in outer:
        identity = hashlib.sha256(f"{identity} {wrapper.identity}".encode()).hexdigest()
    return identity


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
