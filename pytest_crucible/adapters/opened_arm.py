"""An arm of a session, with the backend that replies for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.prompt_text import with_prompt_text
from pytest_crucible.backends import Backend, KnowsItsSamples
from pytest_crucible.backends.protocol import find_innermost
from pytest_crucible.backends.stack import OuterWrapper
from pytest_crucible.records import Adapter, Arm, Role, TrainingResult
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
