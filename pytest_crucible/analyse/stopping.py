"""The end of a run with looks: after the first samples, in their fixed order, at which every verdict is settled.

A claim is settled when its confidence sequence has refuted the other answers. Sequences hold at every look, so the end
may depend on the scores. Pure functions: the same replies give the same end, whenever they arrived.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from pytest_crucible.analyse.analysis import AnalysisInputs, ScoreTable, score_as_declared
from pytest_crucible.analyse.conditional import is_conditional
from pytest_crucible.analyse.reach import change_beyond
from pytest_crucible.analyse.scores import Flags, map_arrays
from pytest_crucible.analyse.statistics import (
    Clusters,
    ScoredMetric,
    inapplicable_samples,
    lost_samples,
    prepare,
    row_of,
    scored_samples,
)
from pytest_crucible.measures.row import End, Prepared
from pytest_crucible.measures.sequences import pair_differences, wealth_against
from pytest_crucible.measures.table import MEAN, bounds_problem
from pytest_crucible.measures.values import limit_changes
from pytest_crucible.records import ArmOutcomes, Contrast, Plan, Target
from pytest_crucible.records.errors import UnsuitableMetric
from pytest_crucible.records.outcomes import move_units, skip_units
from pytest_crucible.records.statistics import claims_on_samples
from pytest_crucible.stats.arrays import Side

NEVER = math.inf
_SIDES: tuple[Side, ...] = ("lower", "upper")


def stop_early(inputs: AnalysisInputs, order: Sequence[int], alpha: float) -> AnalysisInputs:
    """Return the inputs with the samples in look order, up to the one at which the last verdict was settled.

    `alpha` is that of each claim. Replies to later samples, which were in flight, are left out: fast ones are among them.
    """
    end = settled_after(inputs, order, alpha)
    looked_at = list(order if end is None else order[:end])
    return replace(cut_to_samples(inputs, looked_at), looked_at=looked_at, finished=inputs.finished or end is not None)


def cut_to_samples(inputs: AnalysisInputs, positions: Sequence[int]) -> AnalysisInputs:
    """Return the inputs with the outcomes of some samples; the other samples are skipped, not lost."""

    def cut(answers: Sequence[ArmOutcomes]) -> tuple[ArmOutcomes, ...]:
        return tuple(
            keep_samples(arm, positions, samples=len(inputs.groups), repeats=inputs.plan.draws(number).size)
            for number, arm in enumerate(answers)
        )

    variants = {name: cut(answers) for name, answers in inputs.variants.items()}
    return replace(inputs, answers=cut(inputs.answers), variants=variants)


def settled_after(inputs: AnalysisInputs, order: Sequence[int], alpha: float) -> int | None:
    """Return after how many samples of the order all claims were settled; None if some are not.

    `order` ends with the last sample that is complete in all arms. Raises UnsuitableMetric for one without bounds.
    """
    # What has refuted a reach after an end must not move that end.
    table = in_order(score_as_declared(inputs), order, alpha)
    ends = [_find_end(claim, inputs, table, alpha) for claim in claims_on_samples(inputs.plan)]
    latest = max(ends, default=NEVER)
    return None if latest == NEVER else int(latest)


def in_order(table: ScoreTable, order: Sequence[int], alpha: float | None) -> ScoreTable:
    """Return the table with some samples only, in this order. With an alpha, intervals hold at every look."""
    chosen = np.asarray(order, dtype=np.int64)
    attributes = table.attributes
    return replace(
        table,
        scores={
            name: tuple(map_arrays(scores, lambda array: array[chosen]) for scores in arms)
            for name, arms in table.scores.items()
        },
        attributes=replace(
            attributes,
            look_alpha=alpha,
            largest_group=largest_group(attributes.clusters),
            clusters=None if attributes.clusters is None else attributes.clusters[chosen],
            keys=None if attributes.keys is None else attributes.keys[chosen],
            expected=[attributes.expected[k] for k in order] if attributes.expected else (),
            slicings={by: slicing.choose(chosen) for by, slicing in attributes.slicings.items()},
        ),
    )


def largest_group(clusters: Clusters | None) -> int:
    """Return the size of the largest group of the whole plan, which is known before the first look."""
    return 1 if clusters is None else int(np.bincount(clusters).max())


def keep_samples(answers: ArmOutcomes, positions: Sequence[int], *, samples: int, repeats: int) -> ArmOutcomes:
    """Return an arm's outcomes of some samples; the other samples are skipped, not lost."""
    chosen = set(positions)
    others = [position for position in range(samples) if position not in chosen]
    return _add_skipped(keep_answers(answers, positions), others, repeats)


def skip_samples(plan: Plan, answers: Sequence[ArmOutcomes], positions: Iterable[int]) -> tuple[ArmOutcomes, ...]:
    """Return the arms' outcomes with the samples at some positions, which have no outcome, as skipped."""
    skipped = list(positions)
    return tuple(_add_skipped(arm, skipped, plan.draws(number).size) for number, arm in enumerate(answers))


def _add_skipped(answers: ArmOutcomes, positions: Sequence[int], repeats: int) -> ArmOutcomes:
    return skip_units(answers, [(position, repeat) for position in positions for repeat in range(repeats)])


def keep_answers(answers: ArmOutcomes, positions: Sequence[int]) -> ArmOutcomes:
    """Return an arm's outcomes of some samples; the other samples are unanswered."""
    chosen = set(positions)
    return move_units(answers, lambda unit: unit if unit[0] in chosen else None)


def answered_by_arm(
    arms: Sequence[ArmOutcomes], variants: Mapping[str, Sequence[ArmOutcomes]]
) -> Iterator[Iterator[int]]:
    """Yield, arm by arm, the positions of its units that are answered or lost, those of variants included."""
    for number, answers in enumerate(arms):
        yield chain(answered_units(answers), *(answered_units(of_arms[number]) for of_arms in variants.values()))


def answered_units(answers: ArmOutcomes) -> Iterator[int]:
    """Yield the position of each unit that an arm has answered or lost."""
    yield from answers.positions
    yield from (loss.unit.position for loss in answers.lost if loss.metric is None)


# -- one claim -----------------------------------------------------------------------------------------------------


def _find_end(claim: Target | Contrast, inputs: AnalysisInputs, table: ScoreTable, alpha: float) -> float:
    """Return the number of samples that settles a claim for all values of the lost ones; NEVER if none does."""
    if not table.has(claim):
        return NEVER
    problem = bounds_problem(claim, table.facts[claim.metric])
    if problem:
        raise UnsuitableMetric(problem)
    if _has_no_sequence(claim, inputs, table):
        return NEVER
    readings = list(_readings(claim, inputs, table))
    limits, share = _limits(claim), alpha / 2 if isinstance(claim, Contrast) and claim.margin is None else alpha
    # An improvement that is asked for is met by its one-sided bound, and missed as a gate is.
    met_share = alpha if isinstance(claim, Contrast) and claim.alternative == "superior" else share
    # A claim ends when the mean is beyond its limits on one side, or, with two limits, between them.
    ways: list[list[tuple[float, Side, float]]] = [[(limits[-1], "lower", met_share)], [(limits[0], "upper", share)]]
    if len(limits) == 2:
        ways.append([(limits[0], "lower", share), (limits[1], "upper", share)])
    end = min(
        max(
            _samples_until_refuted(prepared, chosen, mean, side, part)
            for prepared, chosen in readings
            for mean, side, part in way
        )
        for way in ways
    )
    return end if end <= _first_beyond_reach(claim, inputs, table) else NEVER


def _first_beyond_reach(claim: Target | Contrast, inputs: AnalysisInputs, table: ScoreTable) -> float:
    """Return the number of samples before the first one that changed by more than the metric's reach; NEVER without one."""
    if not isinstance(claim, Contrast) or claim.statistic != MEAN.name or table.facts[claim.metric].reach is None:
        return NEVER
    (ours, *_), (theirs, *_) = _arms(claim, inputs, table)
    _, far = change_beyond(claim, ours, theirs)
    return int(far.argmax()) if far.any() else NEVER


def _has_no_sequence(claim: Target | Contrast, inputs: AnalysisInputs, table: ScoreTable) -> bool:
    """Return whether the mean is a ratio of two sums, which no confidence sequence follows."""
    arms = _arms(claim, inputs, table)
    is_difference = len(arms) > 1 and is_conditional(claim, *arms)
    return is_difference or any(metrics[0].scores.mixed.any() for metrics in arms)


def _limits(claim: Target | Contrast) -> tuple[float, ...]:
    """Return the values from which the mean must differ, so that a claim is settled."""
    if isinstance(claim, Target):
        return (claim.value,)
    # Below the relevant difference or above it: "worse, and perhaps not by what matters" would be settled too early.
    margin = claim.limit
    if margin is None:
        return (0.0,)
    return {"equivalent": (-margin, margin), "superior": (margin,)}.get(claim.alternative, (-margin,))


def _readings(claim: Target | Contrast, inputs: AnalysisInputs, table: ScoreTable) -> Iterator[tuple[Prepared, Flags]]:
    """Yield the values as observed and, where some are lost, with these at either end; and which samples they are of."""
    arms = _arms(claim, inputs, table)
    scored = np.all([scored_samples(arm) for arm in arms], axis=0)
    applicable = ~np.any([inapplicable_samples(arm) for arm in arms], axis=0)
    ends: list[tuple[Flags, End, End]] = [(scored, "observed", "observed")]
    if np.any([lost_samples(arm) & applicable for arm in arms]):
        ends += [(applicable, "low", "high"), (applicable, "high", "low")]
    for chosen, ours, theirs in ends:
        prepared = [
            prepare(claim, arm, table.attributes, chosen, end) for arm, end in zip(arms, (ours, theirs), strict=False)
        ]
        if isinstance(claim, Contrast) and ours != "observed":
            prepared = list(limit_changes(prepared[0], prepared[1]))
        yield _orient(claim, arms[0], prepared), chosen


def _arms(claim: Target | Contrast, inputs: AnalysisInputs, table: ScoreTable) -> list[list[ScoredMetric]]:
    """Return the claim's metrics with their scores in the candidate and, for a comparison, in the baseline."""
    numbers = [0]
    if isinstance(claim, Contrast):
        numbers.append([arm.name for arm in inputs.plan.arms].index(claim.baseline))
    return [table.arm(claim, number) for number in numbers]


def _orient(claim: Target | Contrast, metrics: Sequence[ScoredMetric], prepared: list[Prepared]) -> Prepared:
    if isinstance(claim, Target):
        return prepared[0]
    better = row_of(claim).higher_is_better(claim, metrics[0].facts)
    return pair_differences(*(prepared if better else reversed(prepared)))


def _samples_until_refuted(prepared: Prepared, chosen: Flags, mean: float, side: Side, alpha: float) -> float:
    """Return the number of samples after which the mean is refuted; NEVER if it is not."""
    if not len(prepared.values):
        return NEVER
    beyond = wealth_against(prepared, mean, alpha, side) > math.log(1 / alpha)
    if not beyond.any():
        return NEVER
    return 1 + int(_last_samples(prepared, chosen)[int(beyond.argmax())])


def _last_samples(prepared: Prepared, chosen: Flags) -> np.typing.NDArray[np.int64]:
    """Return, for each value, the place of its last sample in the order."""
    places = np.flatnonzero(chosen)
    if prepared.clusters is None:
        return places
    # Groups are neighbours in the order, so the last sample of each is just before the next group.
    starts = np.flatnonzero(np.diff(prepared.clusters)) if prepared.clusters.size else places
    return np.asarray(places[np.append(starts, prepared.clusters.size - 1)])
