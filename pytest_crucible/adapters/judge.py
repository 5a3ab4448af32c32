"""Adapters that answer prompts in a role: as a judge, or as a paraphraser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.adapters.preparations import Pending
from pytest_crucible.adapters.stored_arms import is_stored
from pytest_crucible.backends import Backend, KnowsItsSamples
from pytest_crucible.backends.protocol import system_prompt
from pytest_crucible.metrics.models.scorers import Judge
from pytest_crucible.records import JUDGE
from pytest_crucible.records.errors import SpecError


def open_judge(
    open_adapter: Callable[[str, Literal["candidate"]], OpenedArm], name: str, owner: str, role: str = JUDGE
) -> tuple[Judge, Backend]:
    """Return an adapter as a judge, or in another role, and its backend. Raises SpecError if it cannot answer prompts."""
    # A stored run has replies, but no model that could answer a new prompt.
    opened = None if is_stored(name) else open_adapter(name, "candidate")
    backend = None if opened is None else opened.backend
    if opened is None or backend is None or opened.trainings or isinstance(backend, Pending | KnowsItsSamples):
        raise SpecError(
            f"{role.removesuffix(':')} {name!r} of {owner} cannot answer prompts: name the adapter of a model"
        )
    return Judge(
        name,
        identity=backend.identity,
        generate=backend.generate,
        parameters=opened.arm.parameters,
        simulated=backend.simulated,
        system=system_prompt(backend),
        role=role,
    ), backend
