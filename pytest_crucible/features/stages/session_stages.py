"""The items of stages: pytest runs an experiment once for each stage, all experiments of a stage before the next one.

The first stage of an experiment is the item that was collected. Each later one is an item of its own, with the name of the
stage: `test_x.py::test_schema@dev`. So fixtures, -x, --durations and reports treat every stage as a test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

import pytest

from pytest_crucible.features.stages.analysis import ending_text, load_decision, look_after_stage, store_decision
from pytest_crucible.features.stages.definition import (
    FIRST_STAGE,
    STAGES,
    Stage,
    StageDecision,
    parse_stages,
    stage_number,
)
from pytest_crucible.features.stages.looks import StageRun
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.records.settings import Settings
from pytest_crucible.runs.plugins import Extensions
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.items import repeat_item, repeat_number
from pytest_crucible.store.runs import RunStore


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


# Another worker's decision is looked up this often: requests of a second are few, and the run store is read rarely.
ASK_EVERY_S = 1.0


@dataclass
class SessionStages:
    """Follows the stages of one session, in this process."""

    settings: Settings
    run: str
    store: Callable[[], RunStore]
    is_worker: bool
    extensions: Callable[[], Extensions]
    """Returns the hooks that stages are analysed with."""
    expected: Callable[[], set[str]]
    """Returns the experiments whose misses are expected failures."""
    _completed: dict[str, int] = field(default_factory=dict)
    """Nodeid -> the last stage that ran to its end in this process."""
    _asked_at: float = 0.0
    _is_over: bool = False

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        return parse_stages(self.settings.option("stages"))

    @cached_property
    def last(self) -> int:
        """The last stage that the session may reach."""
        until = self.settings.option("until")
        return len(self.stages) - 1 if until is None else stage_number(self.stages, until, f"--crucible-until={until}")

    def reason_to_skip(self, plan: Plan, stage: int) -> str:
        """Return why an experiment does not run a stage; empty if it does. Decides the earlier stages first if necessary."""
        name = self.stages[stage].name
        if stage > self.last:
            return (
                f"not run: it begins at stage {name}, and --crucible-until={self.settings.option('until')} ends before"
            )
        ending = self.decide_before(stage)
        if ending is not None:
            return f"not run: {ending_text(ending, plan)}"
        if stage > FIRST_STAGE.of(plan) and self._completed.get(plan.nodeid) != stage - 1:
            return f"not run: its stage {self.stages[stage - 1].name} did not end"
        return ""

    def enter(self, experiment: Experiment) -> None:
        """Enter an experiment that does not begin, so that its verdicts are given: they are undecided."""
        store, plan = self.store(), experiment.plan
        key = next(key for key, entered, _ in store.experiments(self.run) if entered.nodeid == plan.nodeid)
        if not store.has_arms(key):
            store.enter_unanswered(self.run, plan, experiment.dataset.samples)

    def decide_before(self, stage: int) -> StageDecision | None:
        """Return the decision that ended the session before a stage, or in it; None if it goes on."""
        for number in range(stage):
            decision = self.decide_after(number)
            if decision.end:
                return decision
        return self._ended_in(stage)

    def decide_after(self, number: int) -> StageDecision:
        """Return the decision after a stage, made and stored if it was not yet."""
        decision = load_decision(self.store(), self.run, number)
        if decision is not None:
            return decision
        settings = self.settings
        decision = look_after_stage(
            self.store(),
            self.run,
            number,
            self.extensions(),
            alpha=settings.alpha,
            strict=settings.strict,
            expected=self.expected(),
        )
        if not decision.end and number == self.last:
            decision = replace(decision, end="until")
        return store_decision(self.store(), self.run, decision)

    def finish(self) -> None:
        """Make the last decision, when all stages that the session may reach have run."""
        if self.last < len(self.stages) - 1 and self.decide_before(self.last) is None:
            self.decide_after(self.last)

    def stage_run(self, plan: Plan, number: int) -> StageRun:
        """Return the stage of an experiment, for its runner."""

        def store_out_of_reach(subject: str) -> None:
            decision = StageDecision(stage=number, end="out of reach", nodeid=plan.nodeid, subject=subject)
            store_decision(self.store(), self.run, decision)

        is_expected = plan.nodeid in self.expected()
        return StageRun(
            number=number,
            is_first=number == FIRST_STAGE.of(plan),
            is_last=number == len(self.stages) - 1,
            strict=self.settings.strict,
            on_out_of_reach=None if is_expected else store_out_of_reach,
            check_session=lambda: self._check_session(number),
            is_over=lambda: self._is_over,
        )

    def complete(self, plan: Plan, number: int) -> None:
        """Record that an experiment has run a stage to its end."""
        self._completed[plan.nodeid] = number

    def _check_session(self, number: int) -> None:
        """Check, now and then, whether another worker has ended the session."""
        now = time.monotonic()
        if self.is_worker and not self._is_over and now - self._asked_at > ASK_EVERY_S:
            self._asked_at = now
            self._is_over = self._ended_in(number) is not None

    def _ended_in(self, number: int) -> StageDecision | None:
        decision = load_decision(self.store(), self.run, number)
        return decision if decision is not None and decision.end else None
