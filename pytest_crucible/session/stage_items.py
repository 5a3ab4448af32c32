"""The items of stages: pytest runs an experiment once for each stage, all experiments of a stage before the next one.

The first stage of an experiment is the item that was collected. Each later one is an item of its own, with the name of the
stage: `test_x.py::test_schema@dev`. So fixtures, -x, --durations and reports treat every stage as a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from pytest_crucible.records import Plan
from pytest_crucible.records.stages import Stage


class _Repeated(NamedTuple):
    nodeid: str
    """Of the item that was collected."""
    stage: int


_REPEATED = pytest.StashKey[_Repeated]()


def collected_nodeid(item: pytest.Item) -> str:
    """Return the collected nodeid of the item, which is that of its experiment."""
    repeated = item.stash.get(_REPEATED, None)
    return item.nodeid if repeated is None else repeated.nodeid


def stage_of(item: pytest.Item, plan: Plan) -> int:
    """Return the stage of its experiment that an item runs."""
    repeated = item.stash.get(_REPEATED, None)
    return plan.first_stage if repeated is None else repeated.stage


def order_by_stage(
    items: Sequence[pytest.Item], plans: Mapping[str, Plan], stages: Sequence[Stage], last: int
) -> list[pytest.Item]:
    """Return all items, in their order, stage by stage until the last; other tests run in the first stage.

    `plans` are those of the experiments, by nodeid.
    """
    begun = [item for item in items if _first_stage(item, plans) == 0]
    for number in range(1, len(stages)):
        begun += items_of_stage(items, plans, stages, number) if number <= last else []
        # An experiment that would begin after the last stage still has its item, whose report has the reason why it is not run.
        begun += [item for item in items if number > last and _first_stage(item, plans) == number]
    return begun


def items_of_stage(
    items: Iterable[pytest.Item], plans: Mapping[str, Plan], stages: Sequence[Stage], number: int
) -> Iterator[pytest.Item]:
    """Yield the experiments' items of a stage after the first, in the order of the items that were collected."""
    for item in items:
        plan = plans.get(item.nodeid)
        if plan is None or not plan.stages or not isinstance(item, pytest.Function) or plan.first_stage > number:
            continue
        yield item if plan.first_stage == number else repeat_item(item, stages[number].name, number)


def repeat_item(item: pytest.Function, name: str, stage: int) -> pytest.Function:
    """Return another item of the same test, for a later stage."""
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
    again.stash[_REPEATED] = _Repeated(item.nodeid, stage)
    return again


def _set_nodeid(item: Any, nodeid: str) -> None:
    """Name an item: pytest makes the nodeid of a function from its original name, without the stage."""
    # Until pytest 9.1 it is a text, and then a NodeId.
    if hasattr(item, "_id"):
        item._id = type(item._id).parse(nodeid)
    else:
        item._nodeid = nodeid


def _first_stage(item: pytest.Item, plans: Mapping[str, Plan]) -> int:
    plan = plans.get(item.nodeid)
    return 0 if plan is None else plan.first_stage
