"""One stage of one experiment: which samples it sends, and the look that ends it when a target is out of reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.features.stages.definition import stage_length
from pytest_crucible.features.stages.out_of_reach import out_of_reach, out_of_reach_after
from pytest_crucible.features.stages.records import STAGES
from pytest_crucible.plan.look_order import look_order
from pytest_crucible.records import Plan, Sample
from pytest_crucible.session.experiment import ExperimentRun

# A look at a thousand samples takes 2 ms: one for each 15 % more costs 50 to 80 us a sample, and ends soon enough.
GROWTH = 1.15


def stage_positions(plan: Plan, samples: Sequence[Sample], number: int) -> list[int]:
    """Return the positions of the samples of a stage, those of earlier stages included, in look order."""
    groups = [sample.group for sample in samples]
    order = look_order([sample.id for sample in samples], groups)
    return order[: stage_length(order, groups, STAGES.of(plan)[number].samples)]


@dataclass(frozen=True)
class StageRun:
    """A stage that an experiment is about to run."""

    number: int
    """From 0, among the stages of the configuration."""
    is_first: bool
    """Whether the experiment begins with it."""
    is_last: bool
    strict: bool
    """Whether targets must be proven, so that no estimate puts one out of reach."""
    on_out_of_reach: Callable[[str], None] | None
    """Stores that a target cannot be met any more, before no further unit is sent. None if the miss is expected."""
    check_session: Callable[[], None] = lambda: None
    """Called by the main thread, several times a second: checks whether another worker has ended the session."""
    is_over: Callable[[], bool] = lambda: False
    """Whether another experiment has ended the session."""

    def set_up(self, run: ExperimentRun) -> None:
        """Let a run send the samples of this stage, and look whether a target is out of reach."""
        plan = run.experiment.plan
        run.positions = stage_positions(plan, run.experiment.dataset.samples, self.number)
        run.rule = self.look_rule(plan, len(run.positions))
        run.is_first, run.is_last, run.is_over = self.is_first, self.is_last, self.is_over
        run.on_tick.append(self.check_session)

    def look_rule(self, plan: Plan, length: int) -> StopOutOfReach | None:
        """Return the rule of looks within the stage; None if no target could end it."""
        if self.strict or self.on_out_of_reach is None or not plan.targets:
            return None
        return StopOutOfReach(length, self.on_out_of_reach)


@dataclass(frozen=True)
class StopOutOfReach:
    """A rule of looks: all arms go on until no scores of the remaining samples could meet a target."""

    length: int
    """The number of samples of the stage."""
    on_out_of_reach: Callable[[str], None]

    def next_look(self, looked: int, complete: int) -> int | None:
        complete = min(complete, self.length)
        is_due = complete >= looked * GROWTH or complete == self.length
        return complete if complete > looked and is_due else None

    def arms_that_go_on(self, inputs: AnalysisInputs, looked_at: Sequence[int], live: frozenset[int]) -> frozenset[int]:
        """Return all arms or none. The decision is stored before it takes effect."""
        first = out_of_reach_after(inputs, looked_at)
        if first is None:
            return live
        self.on_out_of_reach(out_of_reach(inputs, looked_at[:first])[0].text)
        return frozenset()
