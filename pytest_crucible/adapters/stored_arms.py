"""Arms whose replies are in the run store: `--compare=run:ID` and `--compare=tag:NAME`."""

from __future__ import annotations

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.records import Arm, Role
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.runs import TAGGED

STORED = "run:"
"""Precedes the id of a run."""


def is_stored(name: str) -> bool:
    """Return whether an arm's name means a stored run.

    >>> is_stored("run:4f1c"), is_stored("tag:nightly"), is_stored("v2")
    (True, True, False)
    """
    return name.startswith((STORED, TAGGED))


def stored_arm(name: str, role: Role) -> OpenedArm:
    """Return the baseline whose replies are stored. Raises SpecError for the role of a candidate."""
    if role == "candidate":
        raise SpecError(f"--crucible-adapter={name}: a stored run can only be a baseline: name it with --compare")
    return OpenedArm(
        Arm(name=name, role=role, adapter=name, identity=name, stored_run=name.removeprefix(STORED)), backend=None
    )
