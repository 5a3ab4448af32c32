"""Joined tests: ordinary parametrised tests that request `crucible` and score; each of their items is a sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from pytest_crucible.records import Plan
from pytest_crucible.session.markers import takes_fixture


@dataclass
class JoinedTest:
    """One joined test function: its samples are its items, in the order in which they were collected."""

    plan: Plan
    positions: dict[str, int]
    arms: list[int] = field(default_factory=list)
    """Keys of the arms in the run store."""

    @property
    def has_verdicts(self) -> bool:
        """True if a verdict over all samples follows: then a single wrong answer does not fail its item."""
        return bool(self.plan.targets or self.plan.contrasts)


def uses_crucible(item: pytest.Item) -> bool:
    return takes_fixture(item, "crucible")


def arm_name(item: pytest.Item) -> str | None:
    """Return the arm that an item was parametrised with; None if there is only one."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("crucible")


def sample_id(item: pytest.Item) -> str:
    """Return the item's own parameters as an id, without the arm that the plugin added last; else the function's name."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return item.name
    arm, parameters = arm_name(item), str(callspec.id)
    if arm is not None:
        parameters = parameters.removesuffix(_escape(arm, item.config)).removesuffix("-")
    # The item's name would hold the arm: the arms' answers would not be paired.
    return parameters or str(getattr(item, "originalname", item.name))


def _escape(name: str, config: pytest.Config) -> str:
    """Return a name as pytest writes it in an id: escaped, unless its configuration turns that off."""
    unescaped = config.getini("disable_test_id_escaping_and_forfeit_all_rights_to_community_support")
    return name if unescaped else name.encode("unicode_escape").decode("ascii")


def function_nodeid(item: pytest.Item) -> str:
    """Return the nodeid of an item's test function, without its parameters."""
    # Cutting the nodeid at its first `[` would be wrong: a folder's name may contain one.
    name = getattr(item, "originalname", None)
    return item.nodeid if name is None or item.parent is None else f"{item.parent.nodeid}::{name}"


def group_by_function(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Function]]:
    """Return the joined items by the nodeid of their function."""
    groups: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and uses_crucible(item):
            groups.setdefault(function_nodeid(item), []).append(item)
    return groups


def unique_ids(items: Sequence[pytest.Item]) -> list[str]:
    """Return the sample ids in the order of collection, one for all arms of a sample."""
    return list(dict.fromkeys(sample_id(item) for item in items))
