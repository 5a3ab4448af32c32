"""The items of stages: pytest runs an experiment once for each stage, all experiments of a stage before the next one.

The first stage of an experiment is the item that was collected. Each later one is an item of its own, with the name of the
stage: `test_x.py::test_schema@dev`. So fixtures, -x, --durations and reports treat every stage as a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest

from pytest_crucible.features.stages.records import FIRST_STAGE, STAGES, Stage
from pytest_crucible.records import Plan
from pytest_crucible.session.items import repeat_item, repeat_number


def stage_of(item: pytest.Item, plan: Plan) -> int:
    """Return the stage of its experiment that an item runs."""
    number = repeat_number(item)
    return FIRST_STAGE.of(plan) if number is None else number


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
        if (
            plan is None
            or not STAGES.of(plan)
            or not isinstance(item, pytest.Function)
            or FIRST_STAGE.of(plan) > number
        ):
            continue
        yield item if FIRST_STAGE.of(plan) == number else repeat_item(item, stages[number].name, number)


def _first_stage(item: pytest.Item, plans: Mapping[str, Plan]) -> int:
    plan = plans.get(item.nodeid)
    return 0 if plan is None else FIRST_STAGE.of(plan)
