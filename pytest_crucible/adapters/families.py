"""Adapters with a table `sweep`: a family, whose members compete as candidates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.records import Adapter, Arm, Role
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.unknown_setting import UnknownSetting
from pytest_crucible.sweeps.grid import SWEEP, member_name, read_family


def open_family(
    adapter: Adapter,
    role: Role,
    open_member: Callable[[str], OpenedArm],
    trials: Sequence[Mapping[str, Any]] | None = None,
) -> OpenedArm:
    """Return the arm of a family. Its record stands for the winner until the winner is known.

    `trials` are the settings with which a search begins; None for a grid.

    Raises SpecError for a family that is not the candidate, for a key that the adapter or its recipe does not have, and for
    two members that are one checkpoint.
    """
    family = read_family(adapter.name, adapter.options[SWEEP])
    if role != "candidate":
        use = (
            "name another adapter"
            if family.trials
            else f"name one of its members, such as {next(iter(family.members()))!r}"
        )
        raise SpecError(
            f"adapter {adapter.name!r} is a family, of which a winner is chosen, so it can only be the candidate: {use}"
        )
    points = list(family.points()) if trials is None else trials
    names = family.members() if trials is None else [member_name(family, point) for point in trials]
    try:
        members = tuple(open_member(name) for name in names)
    except UnknownSetting as error:
        swept = any(key == error.key or key.startswith(f"{error.key}.") for key in family.settings)
        verb = "sweeps" if swept else "has"
        raise SpecError(f"adapter {adapter.name!r} {verb} {error.key!r}{error.rest}") from None
    check_members(points, members)
    return OpenedArm(_describe(adapter, members), members[0].backend, competitors=members, family=family)


def check_members(points: Sequence[Mapping[str, Any]], members: Sequence[OpenedArm]) -> None:
    """Raise SpecError for two members that are one checkpoint: the sweep would compare it with itself."""
    for number, member in enumerate(members):
        for other in range(number):
            if _is_same(member.arm, members[other].arm):
                changed = [name for name in points[number] if points[number][name] != points[other][name]]
                raise SpecError(
                    f"{members[other].arm.name} and {member.arm.name} are the same checkpoint: "
                    f"remove {' and '.join(changed or points[number])} from the sweep"
                )


def _is_same(arm: Arm, other: Arm) -> bool:
    return arm.identity == other.identity and dict(arm.parameters) == dict(other.parameters)


def _describe(adapter: Adapter, members: Sequence[OpenedArm]) -> Arm:
    identities = json.dumps([member.arm.identity for member in members])
    return Arm(
        name=adapter.name,
        role="candidate",
        adapter=f"{adapter.backend}:{adapter.name}",
        identity=hashlib.sha256(identities.encode()).hexdigest(),
        parameters=adapter.parameters,
        simulated=any(member.arm.simulated for member in members),
    )
