"""Items of a session: experiments, the samples of joined tests, and items that run a test again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import pytest

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.signs import is_experiment, takes_fixture


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


class MarkedItems:
    """Remembers which items were collected."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        """The function of each experiment, by nodeid."""
        self.joined_ids: dict[str, list[str]] = {}
        """The ids of the samples of each joined test, by the nodeid of its function."""

    def remember(self, items: Sequence[pytest.Item]) -> None:
        """Remember all marked items."""
        for item in items:
            if is_experiment(item) and isinstance(item, pytest.Function):
                # pytest-asyncio wraps `item.obj` when it runs; this is the function as it was written.
                self.functions[item.nodeid] = item.function
        self.joined_ids = {nodeid: unique_ids(group) for nodeid, group in group_by_function(items).items()}

    def experiments(self, items: Iterable[pytest.Item]) -> list[pytest.Function]:
        """Return those items that are experiments."""
        return [item for item in items if item.nodeid in self.functions and isinstance(item, pytest.Function)]

    def experiment_of(self, item: pytest.Item) -> str | None:
        """Return the nodeid of the experiment that an item is, or is a sample of; None for any other test."""
        function = function_nodeid(item)
        # Also when planning it failed: a worker has to report why.
        if function in self.joined_ids:
            return function
        nodeid = collected_nodeid(item)
        return nodeid if nodeid in self.functions else None

    def without(self, planned: Iterable[str]) -> list[str]:
        """Return the experiments and joined tests that are not planned: without them a run is not whole."""
        return sorted({*self.functions, *self.joined_ids} - {*planned})


class _Repeated(NamedTuple):
    nodeid: str
    """Of the item that was collected."""
    number: int


_REPEATED = pytest.StashKey[_Repeated]()


def collected_nodeid(item: pytest.Item) -> str:
    """Return the collected nodeid of the item, which is that of its experiment."""
    repeated = item.stash.get(_REPEATED, None)
    return item.nodeid if repeated is None else repeated.nodeid


def repeat_number(item: pytest.Item) -> int | None:
    """Return the number of a repeated item; None for one that was collected."""
    repeated = item.stash.get(_REPEATED, None)
    return None if repeated is None else repeated.number


def repeat_item(item: pytest.Function, name: str, number: int) -> pytest.Function:
    """Return another item of the same test, named `TEST@name`."""
    again: pytest.Function = type(item).from_parent(
        item.parent,
        name=f"{item.name}@{name}",
        callspec=getattr(item, "callspec", None),
        fixtureinfo=item._fixtureinfo,
        originalname=item.originalname,
    )
    _set_nodeid(again, f"{item.nodeid}@{name}")
    # Also the markers that a conftest.py has added since it was collected.
    again.own_markers[:] = item.own_markers
    again.keywords.update({mark.name: mark for mark in item.own_markers})
    again.stash[_REPEATED] = _Repeated(item.nodeid, number)
    return again


def _set_nodeid(item: Any, nodeid: str) -> None:
    """Name an item: pytest makes the nodeid of a function from its original name, without the addition."""
    # Until pytest 9.1 it is a text, and then a NodeId.
    if hasattr(item, "_id"):
        item._id = type(item._id).parse(nodeid)
    else:
        item._nodeid = nodeid
