"""The stages of a session: whether each begins, and the decisions between them, which are stored before they take effect."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from pytest_crucible.features.stages.analysis import ending_text, load_decision, store_decision
from pytest_crucible.features.stages.definition import parse_stages, stage_number
from pytest_crucible.features.stages.records import FIRST_STAGE, Stage, StageDecision
from pytest_crucible.features.stages.stage_looks import look_after_stage
from pytest_crucible.features.stages.stage_run import StageRun
from pytest_crucible.records import Plan
from pytest_crucible.records.settings import Settings
from pytest_crucible.runs.plugins import Extensions
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.store.runs import RunStore

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
