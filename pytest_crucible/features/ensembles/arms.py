"""Adapters that consist of others: `ensemble = ["v1", "v2"]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.adapters.feature_rows import ArmMaker, PartOpener, open_wrappers
from pytest_crucible.adapters.opened_arm import OpenedArm, describe_arm, find_training_files, join_ancestries
from pytest_crucible.backends import Backend
from pytest_crucible.backends.stack import wrap_outside
from pytest_crucible.records import Adapter, Arm, Role
from pytest_crucible.records.errors import SpecError


def open_ensemble(adapter: Adapter, role: Role, opener: PartOpener) -> OpenedArm:
    """Return the arm whose members answer as one. Raises SpecError."""
    # The imports load the votes, which sessions without an ensemble do not need.
    from pytest_crucible.features.ensembles.settings import read_rules

    _check_circle(adapter, opener.parents)
    context, names = opener.context, read_rules(adapter).ensemble
    members = tuple(_open_member(name, role, opener, adapter.name) for name in names)
    backend = _open_backend(adapter, opener, members)
    outer = open_wrappers(adapter, context)
    files = {sha256: name for member in members for sha256, name in member.arm.trained_on.items()}
    files |= find_training_files(adapter, backend, context.root)
    arm = describe_arm(adapter, role, backend, root=context.root, members=names, trained_on=files, outer=outer)
    settings = {name: values for member in members for name, values in _settings_of(member.arm).items()}
    arm = replace(arm, ancestry=join_ancestries(member.arm for member in members), member_settings=settings)
    return OpenedArm(arm, wrap_outside(backend, outer), members, adapter=adapter)


def _check_circle(adapter: Adapter, parents: Sequence[str]) -> None:
    if adapter.name in parents:
        chain = " > ".join((*parents[parents.index(adapter.name) :], adapter.name))
        raise SpecError(f"adapter {adapter.name!r} is an ensemble of itself ({chain}): name other adapters as members")


def _open_member(name: str, role: Role, opener: PartOpener, ensemble: str) -> OpenedArm:
    """Open a member, whose path is relative to the configuration, because members are written there."""
    try:
        part = opener.find_part(name)
    except SpecError as error:
        raise SpecError(f"ensemble {ensemble!r}: {error}") from None
    # A registered version keeps its own.
    if part.adapter.variables and not part.identity:
        raise SpecError(
            f"ensemble {ensemble!r}: member {name!r} has variables, and a test function has those of the whole "
            f"ensemble: move them to the table of {ensemble!r}"
        )
    opened = opener.open_named_part(name, role)
    if opened.competitors:
        raise SpecError(
            f"ensemble {ensemble!r}: adapter {name!r} is a family, and a member is one model: name one of its "
            f"members, such as {opened.competitors[0].arm.name!r}"
        )
    if opened.trainings:
        raise SpecError(
            f"ensemble {ensemble!r}: adapter {name!r} has seeds, and a member is one model: name one of its "
            f"trainings, such as local:{opened.trainings[0].arm.name}"
        )
    return opened


def _settings_of(member: Arm) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings and parameters of a member by its name; of a member that is an ensemble, those of its members."""
    return member.member_settings or {member.name: {**member.settings, **member.parameters}}


def _open_backend(adapter: Adapter, opener: PartOpener, members: Sequence[OpenedArm]) -> Backend:
    """Return the backend that calls the members and counts their votes. Raises SpecError."""
    from pytest_crucible.features.ensembles.ensemble import Member, make_ensemble
    from pytest_crucible.features.ensembles.settings import read_rules

    voters = [
        Member(name=member.arm.name, backend=member.backend, parameters=member.arm.parameters)
        for member in members
        if member.backend is not None
    ]
    return make_ensemble(adapter.name, voters, read_rules(adapter), opener.context.shared.emit)


MAKERS = (ArmMaker("ensemble", open_ensemble, is_backend=True),)
