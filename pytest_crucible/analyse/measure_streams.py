"""Estimates and targets of a run larger than memory, from score tables of consecutive samples.

Each of them counts its samples while the tables are made (`count`). Then its statistics take the tables in one or more passes
(`add`). Results are those of `targets` and `comparisons`, without what needs all values at once: effect sizes, a warning about
neighbours, plans by resampling, and a suggested reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from itertools import zip_longest

import numpy as np

from pytest_crucible.analyse import conditional
from pytest_crucible.analyse.analysis import ScoreTable
from pytest_crucible.analyse.comparisons import NOTHING, prepare_pair
from pytest_crucible.analyse.scores import Flags, Floats, Scores
from pytest_crucible.analyse.statistics import (
    SampleAttributes,
    ScoredMetric,
    inapplicable_samples,
    lost_samples,
    prepare,
    row_of,
    scored_samples,
    without_unfounded_proof,
)
from pytest_crucible.analyse.targets import (
    bound_drop,
    drop_arms,
    ends_of_drop,
    estimate_drop,
    pair_of,
    uneven_text,
    worst_if_inapplicable,
)
from pytest_crucible.measures.row import Difference, End, Measured, Prepared
from pytest_crucible.measures.statistic import refusal
from pytest_crucible.measures.streams import ArmStream, PairStream, open_arm, open_pair, stream_problem
from pytest_crucible.measures.table import target_problem
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    BoundedValue,
    Contrast,
    Estimate,
    Evidence,
    Measure,
    MetricFacts,
    Target,
    TargetResult,
)
from pytest_crucible.stats.exact_sums import ExactSum


@dataclass(slots=True)
class ArmCounts:
    """Counts of the samples of one arm, and of their replies."""

    scored: int = 0
    lost: int = 0
    inapplicable: int = 0
    mixed: list[int] = field(default_factory=list)
    """By metric: samples that it applies to in some of their replies alone."""
    replies: int | None = None
    """Scored ones; None where samples have one."""
    sizes: set[int] = field(default_factory=set)
    """The numbers of scored replies that samples have."""
    unlike_sides: int = 0
    """Samples of which a drop has one side alone."""
    of_drop: MetricFacts | None = None
    """The facts of the metric that a drop is of."""

    def add(self, measure: Measure, metrics: Sequence[ScoredMetric]) -> tuple[Flags, Flags]:
        """Count samples, and return those that are scored, and those that the metrics apply to."""
        scored, inapplicable = scored_samples(metrics), inapplicable_samples(metrics)
        # Sums of flags take ten times as long: they become numbers first.
        self.scored += int(np.count_nonzero(scored))
        self.lost += int(np.count_nonzero(lost_samples(metrics)))
        self.inapplicable += int(np.count_nonzero(inapplicable))
        mixed = (int(np.count_nonzero(metric.scores.mixed)) for metric in metrics)
        self.mixed = [before + now for before, now in zip_longest(self.mixed, mixed, fillvalue=0)]
        units, pair = metrics[0].scores.units, metrics[0].scores.pair
        if units is not None:
            counts = _count_replies(units.values[scored])
            self.replies = (self.replies or 0) + int(counts.sum())
            self.sizes |= set(np.unique(counts).tolist())
        if pair is not None:
            self.of_drop = pair.facts
            _, (twins, originals) = drop_arms(pair)
            self.unlike_sides += conditional.applies_differently(twins, originals)
        return scored, ~inapplicable

    @property
    def has_unlike_sides(self) -> bool:
        """True if the two means of a drop are of other samples."""
        applies = None if self.of_drop is None else self.of_drop.applies
        return applies == "reply" or (self.unlike_sides > 0 and applies != "sample")

    def problem(self, measure: Measure, facts: MetricFacts) -> str:
        """Explain why these replies have no statistic in parts; empty if they have one."""
        if any(self.mixed):
            return refusal(measure, f"{facts.name} applies to some replies only of a sample")
        if self.has_unlike_sides:
            return refusal(measure, f"{facts.name} applies to other samples on one side")
        return ""


def _fill_inapplicable(scores: Scores, worst: float) -> Floats:
    """Return the values of the samples that are not lost, the worst one where the metric does not apply."""
    if scores.seen.all():
        return scores.values
    values = np.where(scores.inapplicable, worst, scores.values)
    return values[~np.isnan(values)]


def _count_replies(units: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.int64]:
    return np.asarray((~np.isnan(units)).reshape(len(units), -1).sum(axis=1))


class MeasureInArm:
    """A measure in one arm: an estimate, and for a target its bounds."""

    def __init__(
        self, measure: Measure, facts: MetricFacts, number: int, arm: str, *, clustered: bool, replies: int
    ) -> None:
        """`facts` are those of its first metric, `replies` those of each sample."""
        self.measure, self.facts, self.number, self.arm = measure, facts, number, arm
        self.streams: dict[End, ArmStream | PairStream] = {}
        self.problem = stream_problem(measure, facts, clustered=clustered, replies=replies)
        self._counts, self._prepared = ArmCounts(), Prepared(values=np.empty(0))
        self._worst = worst_if_inapplicable(measure, facts)
        self._filled, self._filled_samples = ExactSum(), 0
        self._of_drop: MetricFacts | None = None
        """The facts of the metric that a drop is of."""

    def count(self, table: ScoreTable) -> None:
        """Count the samples of a table."""
        metrics = table.arm(self.measure, self.number)
        self._counts.add(self.measure, metrics)
        pair = pair_of(self.measure, metrics, table.attributes_of(self.measure))
        self._of_drop = None if pair is None else pair.facts
        if self._worst is not None:
            values = _fill_inapplicable(metrics[0].scores, self._worst)
            self._filled.add(values)
            self._filled_samples += values.size

    def open(self) -> None:
        """Open the statistics that take the tables, after all samples were counted."""
        self.problem = self.problem or self._counts.problem(self.measure, self.facts)
        ends: tuple[End, ...] = ("observed", "low", "high") if self._has_extremes else ("observed",)
        if not self.problem:
            self.streams = {end: self._open_stream() for end in ends}

    @property
    def _has_extremes(self) -> bool:
        return isinstance(self.measure, Target) and self._counts.lost > 0

    def _open_stream(self) -> ArmStream | PairStream:
        if self._of_drop is None:
            return open_arm(self.measure)
        contrast = Contrast(metric=self._of_drop.name, baseline="", margin=0.0)
        return open_pair(contrast, replace(self._of_drop, reach=None))

    def add(self, table: ScoreTable) -> None:
        """Add the samples of a table to the statistics."""
        metrics, attributes = table.arm(self.measure, self.number), table.attributes_of(self.measure)
        for end, stream in self.streams.items():
            if not stream.is_done:
                chosen = scored_samples(metrics) if end == "observed" else ~inapplicable_samples(metrics)
                self._add(stream, metrics, attributes, chosen, end)

    def _add(
        self,
        stream: ArmStream | PairStream,
        metrics: Sequence[ScoredMetric],
        attributes: SampleAttributes,
        chosen: Flags,
        end: End,
    ) -> None:
        pair = metrics[0].scores.pair
        if isinstance(stream, ArmStream):
            prepared = prepare(self.measure, metrics, attributes, chosen, end)
            stream.add(prepared)
            if not (self._prepared.problem or self._prepared.note):
                self._prepared = replace(self._prepared, problem=prepared.problem, note=prepared.note)
        elif pair is not None:
            contrast, arms = drop_arms(pair)
            stream.add(*prepare_pair(contrast, arms, attributes, chosen, ends_of_drop(pair, end)))

    @property
    def _note(self) -> str:
        """The reason why nothing is computed; empty if something is."""
        return self.problem or next(filter(None, (stream.problem for stream in self.streams.values())), "")

    def estimate(self, level: float) -> Estimate:
        """Return the estimate, as `targets.estimate` does."""
        counts, measure = self._counts, self.measure
        measured = self._measure(level)
        return Estimate(
            metric=measure.written or measure.metric,
            statistic=measure.label,
            arm=self.arm,
            n=counts.scored,
            lost=counts.lost,
            inapplicable=counts.inapplicable,
            value=measured.value,
            unconditional=self._filled.value / self._filled_samples
            if self._worst is not None and counts.inapplicable
            else None,
            interval=measured.interval,
            clusters=measured.clusters,
            method=measured.method,
            replies=counts.replies if row_of(measure).of_replies and not measure.by_sample else None,
            uneven=self._uneven(),
        )

    def _measure(self, level: float) -> Measured:
        if self._note:
            return Measured(None, None, None, "none")
        stream = self.streams["observed"]
        if isinstance(stream, ArmStream):
            return stream.estimate(level)
        return estimate_drop(read_difference(stream, 1 - level))

    def _uneven(self) -> str:
        counts, row = self._counts, row_of(self.measure)
        is_uneven = (
            counts.replies is not None and len(counts.sizes) > 1 and counts.of_drop is None and not any(counts.mixed)
        )
        if not is_uneven or self.measure.by_sample or row.chances is not None:
            return ""
        return uneven_text(self.measure, counts.replies or 0)

    def result(self, alpha: float) -> TargetResult:
        """Return the result of a target, as `targets.evaluate_target` does, without the samples that would prove it."""
        target, row = self.measure, row_of(self.measure)
        assert isinstance(target, Target)
        observed, method, note = self._bound_at("observed", alpha)
        worst, best = (
            (self._bound_at(end, alpha)[0] for end in ("low", "high")) if self._has_extremes else (observed,) * 2
        )
        invalid = row.check_values(target, {self.arm: self._prepared}) or target_problem(target, self.facts)
        declared = conditional.wrong_declaration(self.facts, 0, sum(self._counts.mixed))
        return TargetResult(
            target=target,
            estimate=self.estimate(1 - alpha),
            evidence=Evidence(observed=observed, worst=worst, best=best, method=method),
            needed=None,
            note=self._note
            or self._prepared.problem
            or row.no_proof(target, self.facts)
            or note
            or self._prepared.note,
            suite_error=declared or (invalid if self._counts.scored else ""),
        )

    def _bound_at(self, end: End, alpha: float) -> tuple[BoundedValue, str, str]:
        if self._note:
            return NOTHING, "none", ""
        stream = self.streams[end]
        if isinstance(stream, ArmStream):
            return *stream.bound(alpha), ""
        difference = read_difference(stream, alpha)
        return *bound_drop(difference), difference.note if difference else ""


def read_difference(stream: PairStream, alpha: float) -> Difference | None:
    """Return the difference of a stream that has had its passes, without proof where the metric's declaration allows none."""
    return without_unfounded_proof(stream.contrast, stream.facts, stream.difference(alpha))
