"""Roles: further models that an arm's agents may ask, by name: `[adapters.v2.roles] planner = "base", coder = "v2"`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_crucible.adapters.feature_rows import ArmMaker, PartOpener
from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.backends import KnowsItsSamples
from pytest_crucible.records import Adapter, Arm, Role
from pytest_crucible.records.errors import Refused, SpecError, suggest
from pytest_crucible.records.serialize import canonical

KEY = "roles"
_ITSELF = "the arm"
"""Stands for the adapter's own name, so that arms do not differ by it."""
_EXAMPLE = '[adapters.{}.roles] planner = "base"'


def open_with_roles(adapter: Adapter, role: Role, opener: PartOpener) -> OpenedArm:
    """Return the arm of an adapter with the models of its roles. Raises SpecError."""
    names = _read_roles(adapter)
    options = {name: value for name, value in adapter.options.items() if name != KEY}
    opened = opener.open_part(replace(adapter, options=options), role)
    # A role that names the adapter itself is the arm: its calls share the arm's seat.
    others = {name: part for name, part in names.items() if part != adapter.name}
    helpers = {name: _open_role(adapter.name, name, part, opener, role) for name, part in others.items()}
    own = {name: part if name in others else _ITSELF for name, part in names.items()}
    arm = _describe(opened.arm, own, {name: helper.arm.identity for name, helper in helpers.items()})
    return replace(opened, arm=arm, helpers={**helpers, **{name: opened for name in names if name not in others}})


def _read_roles(adapter: Adapter) -> Mapping[str, str]:
    names = adapter.options[KEY]
    is_table = isinstance(names, Mapping) and bool(names)
    if not is_table or not all(isinstance(part, str) and name.isidentifier() for name, part in names.items()):
        raise SpecError(
            f"adapter {adapter.name!r} has roles = {names!r}: write the adapter of each role, as in "
            f"{_EXAMPLE.format(adapter.name)}"
        )
    return dict(names)


def _open_role(owner: str, name: str, part: str, opener: PartOpener, role: Role) -> OpenedArm:
    try:
        opened = opener.open_named_part(part, role)
    except SpecError as error:
        raise SpecError(f"role {name!r} of {owner}: {error}") from None
    if opened.backend is None or opened.trainings or opened.competitors or isinstance(opened.backend, KnowsItsSamples):
        raise SpecError(
            f"role {name!r} of {owner} is {part!r}, which answers no new prompt: name the adapter of one model"
        )
    return opened


def _describe(arm: Arm, names: Mapping[str, str], identities: Mapping[str, str]) -> Arm:
    """Return the arm as another one than without its roles: its agents' replies depend on them."""
    identity = hashlib.sha256(canonical([arm.identity, dict(names), dict(identities)]).encode()).hexdigest()
    settings: Mapping[str, Any] = {**arm.settings, KEY: dict(names)}
    return replace(arm, identity=identity, settings=settings)


def find_role(opened: OpenedArm, name: str) -> OpenedArm:
    """Return the model of a role. Raises Refused, which ends the experiment, for a role that the arm does not have."""
    if name in opened.helpers:
        return opened.helpers[name]
    owner = opened.arm.name
    if opened.helpers:
        raise Refused(f"role {name!r} of {owner}: {suggest(name, opened.helpers)}")
    raise Refused(f"role {name!r} of {owner}: it has no roles; add them to its table, as in {_EXAMPLE.format(owner)}")


def check_roles(arms: tuple[OpenedArm, ...]) -> None:
    """Raise SpecError where an arm lacks a role that another one has."""
    names = sorted({name for opened in arms for name in opened.helpers})
    for opened in arms:
        missing = [name for name in names if opened.backend is not None and name not in opened.helpers]
        if missing:
            raise SpecError(
                f"adapter {opened.arm.name!r} has no role {missing[0]!r}, which another arm has: add it, as in "
                f"[adapters.{opened.arm.name}.roles] {missing[0]} = {opened.arm.name!r}"
            )


MAKERS = (ArmMaker(KEY, open_with_roles),)
