"""Adapters that consist of others: `ensemble = ["v1", "v2"]`."""

from __future__ import annotations

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.backends import Backend
from pytest_crucible.backends.ensembles.ensemble import make_ensemble
from pytest_crucible.backends.ensembles.polling import Member
from pytest_crucible.backends.ensembles.settings import read_rules
from pytest_crucible.records import Adapter


def read_members(adapter: Adapter) -> tuple[str, ...]:
    """Return the names of the members. Raises SpecError for invalid settings of the ensemble."""
    return read_rules(adapter).ensemble


def open_ensemble(adapter: Adapter, context: AdapterContext, members: tuple[OpenedArm, ...]) -> Backend:
    """Return the backend that calls the members and counts their votes. Raises SpecError."""
    voters = [
        Member(name=member.arm.name, backend=member.backend, parameters=member.arm.parameters)
        for member in members
        if member.backend is not None
    ]
    return make_ensemble(adapter.name, voters, read_rules(adapter), context.shared.emit)
