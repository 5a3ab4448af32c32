"""The looks of an early stop, and of a stage: where verdicts are settled, or no scores could meet a target any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_crucible.analyse.analysis import AnalysisInputs, ScoreTable, score_table
from pytest_crucible.analyse.statistics import inapplicable_samples, prepare, row_of
from pytest_crucible.analyse.stopping import keep_answers, settled_after
from pytest_crucible.features.stages.definition import STAGES, stage_length
from pytest_crucible.measures.table import bounds_problem
from pytest_crucible.plan.arms import look_order
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan, Sample, Target
from pytest_crucible.session.experiment import ExperimentRun

# A look costs about a millisecond for each thousand samples: one for each 2 % more samples finds the end soon enough.
STOP_GROWTH = 1.02


@dataclass(frozen=True)
class StopWhenSettled:
    """A rule of looks: all arms go on until every verdict is settled."""

    alpha: float
    """The error rate of each claim."""

    def next_look(self, looked: int, complete: int) -> int | None:
        return complete if complete >= max(looked * STOP_GROWTH, 1) and complete > looked else None

    def arms_that_go_on(self, inputs: AnalysisInputs, looked_at: Sequence[int], live: frozenset[int]) -> frozenset[int]:
        """Return all arms or none. Raises UnsuitableMetric for one without bounds."""
        return live if settled_after(inputs, looked_at, self.alpha) is None else frozenset()


STATISTICS = ("mean", "rate", "count")
"""Statistics whose extremes are those of the single scores."""
# A sum of thousands of scores is not exact, and the end must not come too early.
_ROUNDING = 1e-9


def out_of_reach_after(inputs: AnalysisInputs, order: Sequence[int], *, strict: bool = False) -> int | None:
    """Return after how many samples of the order some target could not be met any more; None if all could be.

    `order` ends with the last sample that is complete in all arms; samples after it may have any score. With `strict`,
    targets need proof, and none is decided by its estimate.
    """
    if strict or not out_of_reach(inputs, order):
        return None
    low, high = 0, len(order)
    # Each further sample only narrows what is possible, so the first end is found by bisection.
    while high - low > 1:
        middle = (low + high) // 2
        if out_of_reach(inputs, order[:middle]):
            high = middle
        else:
            low = middle
    return high


def out_of_reach(inputs: AnalysisInputs, answered: Sequence[int]) -> list[Target]:
    """Return the targets that cannot be met any more when all other samples than those `answered` may have any score."""
    targets = [target for target in inputs.plan.targets if _is_decided_by_estimate(target)]
    if not targets:
        return []
    candidate = keep_answers(inputs.answers[0], answered)
    variants = {name: (keep_answers(arms[0], answered), *arms[1:]) for name, arms in inputs.variants.items()}
    answered_so_far = replace(inputs, answers=(candidate, *inputs.answers[1:]), variants=variants)
    table = score_table(answered_so_far)
    return [target for target in targets if table.has(target) and not _can_be_met(target, table)]


def _is_decided_by_estimate(target: Target) -> bool:
    return target.decide == "point" and target.statistic in STATISTICS


def _can_be_met(target: Target, table: ScoreTable) -> bool:
    metrics = table.arm(target, 0)
    # Without bounds, one more score can make up for everything.
    if bounds_problem(target, metrics[0].facts):
        return True
    applicable = ~inapplicable_samples(metrics)
    lowest, highest = (
        row_of(target).estimate(prepare(target, metrics, table.attributes, applicable, end), 0.95).value
        for end in ("low", "high")
    )
    if lowest is None or highest is None:
        return True
    slack = _ROUNDING * max(1.0, abs(target.value))
    return {
        ">": highest > target.value,
        "<": lowest < target.value,
        ">=": highest >= target.value - slack,
        "<=": lowest <= target.value + slack,
        "==": lowest - slack <= target.value <= highest + slack,
    }[target.relation]


# A look at a thousand samples takes 2 ms: one for each 15 % more costs 50 to 80 us a sample, and ends soon enough.
STAGE_GROWTH = 1.15


def stage_positions(plan: Plan, samples: Sequence[Sample], number: int) -> list[int]:
    """Return the positions of the samples of a stage, those of earlier stages included, in look order."""
    groups = [sample.cluster for sample in samples]
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
        is_due = complete >= looked * STAGE_GROWTH or complete == self.length
        return complete if complete > looked and is_due else None

    def arms_that_go_on(self, inputs: AnalysisInputs, looked_at: Sequence[int], live: frozenset[int]) -> frozenset[int]:
        """Return all arms or none. The decision is stored before it takes effect."""
        first = out_of_reach_after(inputs, looked_at)
        if first is None:
            return live
        self.on_out_of_reach(out_of_reach(inputs, looked_at[:first])[0].text)
        return frozenset()
