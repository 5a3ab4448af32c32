"""Adapters with a table `sweep`: a family, whose members compete as candidates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.config import read_adapter
from pytest_crucible.adapters.config_tables import list_tables
from pytest_crucible.adapters.feature_rows import ArmMaker, PartOpener
from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features.sweeps.grid import SWEEP, Family, first_points, member_name, member_table, read_family
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Arm, Role
from pytest_crucible.records.errors import SpecError, UnknownSetting

OpenTrial = Callable[[Mapping[str, Any]], OpenedArm]


@dataclass(frozen=True)
class SweptFamily:
    """The rules by which the competitors of an arm compete."""

    family: Family
    open_trial: OpenTrial | None = None
    """Opens a further member with these settings, trained first if it has a recipe. Only in a search."""


def family_of(opened: OpenedArm) -> Family:
    """Return the family of an arm with competitors."""
    swept: SweptFamily = opened.of_feature
    return swept.family


def open_sweep(adapter: Adapter, role: Role, opener: PartOpener) -> OpenedArm:
    """Return the arm of an adapter with a sweep."""
    family = read_family(adapter.name, adapter.options[SWEEP])
    if family.trials:
        return _open_search(adapter, family, role, opener)
    return open_family(adapter, role, lambda name: opener.open_named_part(name, role))


def expand_sweep(adapter: Adapter, table: Mapping[str, Any], source: Path) -> Iterator[Adapter]:
    """Yield the members of a grid. Those of a search are known when it proposes them."""
    family = read_family(adapter.name, adapter.options[SWEEP])
    if "seeds" in adapter.options or "seeds" in family.settings:
        raise SpecError(
            f"adapter {adapter.name!r} in {source} has seeds and a sweep: sweep seed = [1, 2], so that each training "
            "competes, or remove the sweep"
        )
    for member, point in () if family.trials else family.members().items():
        yield read_adapter(member, member_table(table, point), source)


def _open_search(adapter: Adapter, family: Family, role: Role, opener: PartOpener) -> OpenedArm:
    """Return the arm of a search with its first trials, which depend on the seed alone."""
    context = opener.context

    def open_member(point: Mapping[str, Any]) -> OpenedArm:
        return opener.open_part(_trial_adapter(adapter, member_name(family, point), point, context.root), "candidate")

    def open_trial(point: Mapping[str, Any]) -> OpenedArm:
        opened = open_member(point)
        return open_member(point) if opener.make_ready(opened) else opened

    points = first_points(family, context.settings.seed) if role == "candidate" else []
    named = {member_name(family, point): point for point in points}
    return open_family(adapter, role, lambda name: open_member(named[name]), points, open_trial)


def _trial_adapter(family: Adapter, name: str, point: Mapping[str, Any], root: Path) -> Adapter:
    """Return the adapter of a trial: the family's table in the configuration, with these settings. Raises SpecError."""
    source, tables = next((source, tables) for source, tables in list_tables(root, "adapters") if family.name in tables)
    return read_adapter(name, member_table(tables[family.name], point), source)


def open_family(
    adapter: Adapter,
    role: Role,
    open_member: Callable[[str], OpenedArm],
    trials: Sequence[Mapping[str, Any]] | None = None,
    open_trial: OpenTrial | None = None,
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
    return OpenedArm(
        _describe(adapter, members), members[0].backend, competitors=members, of_feature=SweptFamily(family, open_trial)
    )


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


MAKERS = (ArmMaker("sweep", open_sweep, expand_sweep),)
