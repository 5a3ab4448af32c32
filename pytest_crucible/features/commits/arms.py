"""The arm `commit:REV`: the model of the candidate, and the code of a commit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_rows import AdapterNames, ArmMaker, NamedAdapter, PartOpener
from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features.commits import FEATURE, PREFIX, is_commit
from pytest_crucible.records import Adapter, Arm, Role
from pytest_crucible.records.errors import SpecError

if TYPE_CHECKING:
    from pytest_crucible.features.commits.commits import Commits


def find_adapter(name: str, context: AdapterContext) -> NamedAdapter:
    """Return the adapter that stands for a commit's code; `open_commit` gives it the candidate's model."""
    return NamedAdapter(Adapter(name=name, backend=FEATURE.name, options={PREFIX: name.removeprefix(PREFIX)}))


def refuse_training(name: str, context: AdapterContext) -> NoReturn:
    """Raise SpecError: no training starts from a commit."""
    raise SpecError(f"{name} is code and has no weights: name an adapter")


def open_commit(adapter: Adapter, role: Role, opener: PartOpener) -> OpenedArm:
    """Return the candidate's arm with the code of a commit. It has the same backend, and so its limits and cached replies.

    Raises SpecError.
    """
    commits: Commits | None = opener.context.of_features.get(FEATURE.name)
    candidate = opener.context.settings.adapter
    if role == "candidate" or candidate is None or is_commit(candidate) or commits is None:
        raise SpecError(f"{adapter.name} can only be a baseline of a pytest session: write --compare={adapter.name}")
    sha = commits.resolve(adapter.name)
    opened = opener.open(candidate, role)
    return replace(opened, arm=with_code(opened.arm, sha, name=adapter.name))


def with_code(arm: Arm, code: str, *, name: str = "") -> Arm:
    """Return an arm whose identity is also that of its code: a commit, or a function in it."""
    trainings = tuple(replace(each, identity=_add_code(each.identity, code)) for each in arm.trainings)
    settings = {**arm.settings, "commit": code} if name else arm.settings
    identity = _add_code(arm.identity, code)
    return replace(arm, name=name or arm.name, identity=identity, trainings=trainings, settings=settings)


def _add_code(identity: str, code: str) -> str:
    return hashlib.sha256(f"{identity} {code}".encode()).hexdigest()


NAMES: Iterable[AdapterNames] = (AdapterNames(find_adapter, refuse_training),)
MAKERS: Iterable[ArmMaker] = (ArmMaker(PREFIX, open_commit),)
