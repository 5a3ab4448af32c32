"""Reduces columns of scores to one value per sample, and separates lost and inapplicable samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmOutcomes, Draws, Kind, MetricFacts, Plan, ScoreColumns
from pytest_crucible.records.datasets import applies

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

_OK, _FAILED, _SKIPPED = 1, 2, 3
# Of several kinds that were seen the widest holds: a single 0.5 makes a column of 0 and 1 a column of numbers.
_WIDTH: dict[Kind, int] = {"binary": 0, "bounded": 1, "unbounded": 2, "text": 3}


@dataclass(frozen=True, slots=True)
class Units:
    """One metric in one arm, reply by reply: arrays of samples x prompts x trainings x rounds x repeats."""

    values: Floats
    """NaN if a reply was not scored."""
    low: Floats
    """The replies' scores, with lost replies at the lowest possible value (perhaps -inf)."""
    high: Floats
    lost: Flags


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of each sample's replies that the metric applies to."""

    observed: Floats
    """Of the replies that are known; NaN if all are lost, or none was asked for."""
    with_lost: Floats
    """Of all replies, if the metric applies to each lost one."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One metric in one arm on the original samples and on their twins; the difference is a drop."""

    facts: MetricFacts
    originals: Scores
    twins: Scores


@dataclass(frozen=True, slots=True)
class Scores:
    """One metric in one arm; every array has one entry a sample."""

    values: Floats
    """The mean over the repeats that were scored; NaN if no repeat was."""
    low: Floats
    """The mean over the repeats, with each lost repeat at the lowest value that exists (perhaps -inf)."""
    high: Floats
    lost: Flags
    """Some repeat of the sample is lost."""
    inapplicable: Flags
    """No repeat was scored and none is lost: the metric does not apply."""
    units: Units | None = None
    """The scores of single replies, if a sample has several."""
    pair: Pair | None = None
    """What these are the differences of, for a drop: it is judged by the method for pairs."""
    own_shares: Shares | None = None
    """None if the metric applies to all or none of each sample's replies, and no sample was skipped."""

    @property
    def seen(self) -> Flags:
        return ~np.isnan(self.values)

    @property
    def shares(self) -> Shares:
        """The share of each sample's replies that the metric applies to."""
        if self.own_shares is not None:
            return self.own_shares
        return whole_shares(self.seen, self.inapplicable)

    @property
    def applies_to_all(self) -> bool:
        """True if the metric applies to every reply that is known, as most do: shares then tell nothing."""
        return self.own_shares is None and not self.inapplicable.any()

    @property
    def mixed(self) -> Flags:
        """Samples that the metric applies to in some of their known replies, and not in others."""
        if self.own_shares is None:
            return np.zeros(self.values.shape, dtype=bool)
        return (self.own_shares.observed > 0) & (self.own_shares.observed < 1)

    @property
    def skipped(self) -> Flags:
        """Samples without a reply that is known or lost: a twin that does not exist, or a test that was skipped."""
        return self.inapplicable & ~self.known

    @property
    def known(self) -> Flags:
        """Samples of which a reply is known: scored, or one that the metric does not apply to."""
        return ~np.isnan(self.shares.observed)


Part = TypeVar("Part", bound=Scores | Units | Shares | Pair)


def map_arrays(part: Part, change: Callable[[Any], Any]) -> Part:
    """Return scores, or a part of them, with each array changed in the same way."""
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    changed: dict[str, Any] = {
        name: change(value) if isinstance(value, np.ndarray) else map_arrays(value, change)
        for name, value in values.items()
        if isinstance(value, np.ndarray | Scores | Units | Shares | Pair)
    }
    return replace(part, **changed)


def as_units(scores: Scores) -> Units:
    """Return the scores of samples as those of their only replies."""
    shape = (len(scores.values), 1, 1, 1, 1)
    return Units(*(getattr(scores, name).reshape(shape) for name in ("values", "low", "high", "lost")))


def mean_over_repeats(units: Units) -> Units:
    """Return units of one repeat each: their mean, so that numbers of repeats may differ."""
    values, low, high = (means_over(getattr(units, name))[..., None] for name in ("values", "low", "high"))
    lost: Flags = np.any(units.lost, axis=-1, keepdims=True)
    return Units(values, low, high, lost)


def means_over(values: Floats) -> Floats:
    """Return means over the last axis, without NaN; NaN if there is nothing else."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means: Floats = np.where(there, values, 0.0).sum(axis=-1) / there.sum(axis=-1)
    return means


def whole_shares(scored: Flags, inapplicable: Flags, skipped: Flags | None = None) -> Shares:
    """Return shares of samples of which the metric applies to all replies or to none."""
    applicable = np.where(inapplicable, 0.0, 1.0)
    has_reply = scored | inapplicable if skipped is None else (scored | inapplicable) & ~skipped
    return Shares(np.where(has_reply, applicable, np.nan), applicable)


def resolve(facts: MetricFacts, arms: Iterable[ArmOutcomes], earlier_kinds: Mapping[str, str]) -> MetricFacts:
    """Complete a declaration by the values of *all* arms and of earlier runs.

    One arm alone never decides, so that the method cannot depend on which arm happened to return only zeros and ones.
    """
    if facts.kind is not None:
        return facts
    kinds_seen: list[Kind] = [
        _seen_kind(arm, facts) for arm in arms if facts.name in arm.scores or facts.name in arm.labels
    ]
    earlier = earlier_kinds.get(facts.name)
    kinds = [*kinds_seen, earlier] if earlier in _WIDTH else kinds_seen
    kind: Kind = max(kinds, key=lambda kind_seen: _WIDTH[kind_seen], default="binary")
    return replace(facts, kind=kind, low=0.0, high=1.0) if kind == "binary" else replace(facts, kind=kind)


def _seen_kind(arm: ArmOutcomes, facts: MetricFacts) -> Kind:
    if facts.name in arm.labels:
        return "text"
    column = arm.scores[facts.name]
    numbers = any(not flag for flag, value in zip(column.is_bool, column.values, strict=True) if value is not None)
    return "unbounded" if numbers else "binary"


def scores(facts: MetricFacts, arm: ArmOutcomes, *, samples: int, repeats: int) -> Scores:
    """Sample means of one metric in one arm, and its lost samples. Repeats are as in `scores_by_repeat`."""
    if repeats == 1 and (values := _complete_values(arm.scores.get(facts.name), samples)) is not None:
        none = np.zeros(samples, dtype=bool)
        return Scores(values, values, values, none, none)
    return _means(_fill_failures(facts, arm, samples, repeats), facts, (samples, repeats))


def scores_with_units(facts: MetricFacts, arm: ArmOutcomes, *, samples: int, draws: Draws) -> Scores:
    """Return sample means together with the scores of the replies that they average."""
    replies = _fill_failures(facts, arm, samples, draws.size)
    means, lost = _means(replies, facts, (samples, draws.size)), replies.lost
    shape, observed = (samples, *draws), np.where(replies.scored, replies.values, np.nan)
    low, high = (np.where(lost, end, observed).reshape(shape) for end in (facts.low, facts.high))
    return replace(means, units=Units(observed.reshape(shape), low, high, lost.reshape(shape)))


def scores_by_repeat(facts: MetricFacts, arm: ArmOutcomes, *, samples: int, repeats: int) -> Floats:
    """Return every single score, samples x repeats; NaN for missing ones.

    A failed unit that was not scored gets the worst value that exists. One that was scored, perhaps with "does not
    apply", before it failed keeps that.
    """
    return _fill_failures(facts, arm, samples, repeats).values.reshape(samples, repeats)


def _complete_values(column: ScoreColumns | None, samples: int) -> Floats | None:
    """Return the values of a metric that has a score of every sample, in their order, as most have; else None.

    Nothing is lost or inapplicable there, whatever became of the replies.
    """
    if column is None or len(column.positions) != samples:
        return None
    # -0.0 becomes 0.0, as in a sum of repeats.
    values: Floats = np.asarray(column.values, dtype=np.float64) + 0.0
    in_order = np.array_equal(column.positions, np.arange(samples))
    return values if in_order and not np.isnan(values).any() else None


class _Replies(NamedTuple):
    """One metric in one arm, one entry a reply."""

    values: Floats
    scored: Flags
    lost: Flags
    """Only where the metric may apply."""
    requested: Flags
    """The test was not skipped."""


def _fill_failures(facts: MetricFacts, arm: ArmOutcomes, samples: int, repeats: int) -> _Replies:
    """Return each reply's value, with the worst one for failures."""
    values, applies = _units(arm.scores.get(facts.name), samples * repeats, repeats)
    status = _status(arm, samples * repeats, repeats)
    scored = ~np.isnan(values)
    worst = facts.low if facts.direction == "higher" else facts.high
    fails = (status == _FAILED) & ~scored & applies & (not facts.of_ensemble)
    # Without a finite worst value, as for a latency, a failure cannot be scored: it stays in `fails` and counts as lost.
    if np.isfinite(worst):
        values[fails] = worst
        scored |= fails
        fails = np.zeros_like(fails)
    broken = _broken_units(facts.name, arm, samples * repeats, repeats)
    lost = ((status == 0) & ~scored) | fails | (broken & ~scored)
    return _Replies(values, scored, lost & applies, (status != _SKIPPED) | scored)


def _means(replies: _Replies, facts: MetricFacts, shape: tuple[int, int]) -> Scores:
    total = np.where(replies.scored, replies.values, 0.0).reshape(shape).sum(axis=1)
    counted, missing, requested = (
        flags.reshape(shape).sum(axis=1) for flags in (replies.scored, replies.lost, replies.requested)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        # 0/0 is NaN: no repeat was scored
        means = low = high = total / counted
        if missing.any():
            low, high = (
                # Only where something is missing: 0 times an infinite bound would be NaN.
                np.where(missing, total + missing * end, total) / (counted + missing)
                for end in (facts.low, facts.high)
            )
    return Scores(
        means, low, high, missing > 0, (counted + missing) == 0, own_shares=_shares(counted, missing, requested)
    )


def _shares(scored: Counts, lost: Counts, requested: Counts) -> Shares | None:
    """Return the shares of replies that the metric applies to; None if it applies to all or none of each sample's."""
    if ((scored + lost == requested) | (scored + lost == 0)).all() and requested.all():
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        # 0/0 is NaN: all replies are lost
        return Shares(observed=scored / (requested - lost), with_lost=np.nan_to_num((scored + lost) / requested))


def _units(column: ScoreColumns | None, size: int, repeats: int) -> tuple[Floats, Flags]:
    """Return the value of each unit (NaN: none) and whether the metric may apply to it."""
    values, applies = np.full(size, np.nan), np.ones(size, dtype=bool)
    if column is not None:
        units = _index(column.positions, column.repeats, repeats)
        # None becomes NaN
        numbers = np.asarray(column.values, dtype=np.float64)
        values[units] = numbers
        applies[units] = ~np.isnan(numbers)
    return values, applies


def _status(arm: ArmOutcomes, size: int, repeats: int) -> npt.NDArray[np.int8]:
    status = np.zeros(size, dtype=np.int8)
    units = _index(arm.positions, arm.repeats, repeats)
    failed = _failed_flags(arm.failures)
    skipped = np.asarray(arm.skipped, dtype=bool)
    status[units] = np.where(skipped, _SKIPPED, np.where(failed, _FAILED, _OK))
    return status


def _failed_flags(failures: Sequence[Any]) -> Flags:
    """Return which replies failed: a batch of a large run has the flags in place of the kinds."""
    if isinstance(failures, np.ndarray):
        return failures
    return np.array([failure is not None for failure in failures], dtype=bool)


def _broken_units(metric: str, arm: ArmOutcomes, size: int, repeats: int) -> Flags:
    """Return the units whose scorer raised, or whose member gave no reply."""
    broken = np.zeros(size, dtype=bool)
    ours = [(loss.unit.position, loss.unit.repeat) for loss in arm.lost if loss.metric == metric]
    if ours:
        positions, unit_repeats = zip(*ours, strict=True)
        broken[_index(positions, unit_repeats, repeats)] = True
    return broken


def _index(positions: Iterable[int], unit_repeats: Iterable[int], repeats: int) -> npt.NDArray[np.int64]:
    # Units are numbered sample by sample, so that a reshape to (samples, repeats) puts each in its row.
    samples: npt.NDArray[np.int64] = np.asarray(positions, dtype=np.int64)
    # A batch of a large run has arrays; with one reply a sample they are the numbers.
    return samples if repeats == 1 else samples * repeats + np.asarray(unit_repeats, dtype=np.int64)


def mark_inapplicable(plan: Plan, answers: Sequence[ArmOutcomes], expected: Sequence[Any]) -> tuple[ArmOutcomes, ...]:
    """Return each arm's outcomes, with "does not apply" for every reply without a score to a sample that a metric is not about."""
    conditional = [facts for facts in plan.metrics if facts.applies_to is not None] if expected else []
    for facts in conditional:
        outside = np.array([not applies(facts.applies_to, each) for each in expected], dtype=bool)
        answers = [mark_outside(arm, facts, outside, plan.draws(number).size) for number, arm in enumerate(answers)]
    return tuple(answers)


def mark_outside(arm: ArmOutcomes, facts: MetricFacts, outside: Flags, repeats: int) -> ArmOutcomes:
    """Return the outcomes with "does not apply" for every reply without a score to the samples outside of a metric."""
    # A metric that other replies of the arm lack was not among its metrics.
    if facts.name not in arm.scores and not all(arm.failures):
        return arm
    column = arm.scores.get(facts.name, ScoreColumns(positions=[], repeats=[], values=[], is_bool=[]))
    unscored = np.repeat(outside[:, None], repeats, axis=1)
    unscored[column.positions, column.repeats] = False
    positions, of_repeats = (axis.tolist() for axis in np.nonzero(unscored))
    marked = ScoreColumns(
        positions=[*column.positions, *positions],
        repeats=[*column.repeats, *of_repeats],
        values=[*column.values, *[None] * len(positions)],
        is_bool=[*column.is_bool, *[False] * len(positions)],
    )
    return replace(arm, scores={**arm.scores, facts.name: marked})
