"""Means, rates, counts and chances of more samples than fit into memory, and their differences.

A batch is what a row of the table prepares of whole samples. Order and split of the batches change no bit of a result. Nothing is
planned from a stream, and it has no effect sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field, replace

import numpy as np

from pytest_crucible.measures.draws import describe_chances
from pytest_crucible.measures.means import (
    as_bounded_total,
    as_total,
    as_total_difference,
    bound_arm_mean,
    compare_arms,
    describe_mean,
)
from pytest_crucible.measures.ratios import claim_geometric_means, without_relative_rounding
from pytest_crucible.measures.row import Difference, Floats, Measured, Numbers, Prepared, no_bounds, no_data
from pytest_crucible.measures.statistic import refusal
from pytest_crucible.measures.table import GEOMETRIC, STATISTICS, comparison_row
from pytest_crucible.measures.values import numeric, without_rounding
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import BoundedValue, Contrast, Measure, MetricFacts
from pytest_crucible.stats.arrays import ROUNDING, round_difference
from pytest_crucible.stats.inputs import OPEN, Arms, Kind, apply_kind, check_pairs_reach, shape_of_differences
from pytest_crucible.stats.streams.unit_counts import UnitCounts
from pytest_crucible.stats.streams.values import Pass, Streamed, Summary, ValueStream

# 1 MB of each column. Two threads that take pieces of 128 KB are slower than one: they wait for Python's lock.
_PIECE = 2**17
UNEVEN = "samples have unequal numbers of replies"


@dataclass(slots=True)
class MeanStream:
    """A mean, a rate, a count or the mean of chances of one arm, at one end of the lost samples."""

    measure: Measure
    template: Prepared | None = None
    values: ValueStream | None = None
    units: UnitCounts = field(default_factory=UnitCounts)
    """Samples with several replies, each of which is a group."""
    graded: bool = False
    samples: int = 0
    replies: int = 0
    per_sample: int = 0
    """Replies to each sample, if all have as many."""
    uneven: bool = False
    infinite: float = 0.0
    """The sum of values without an end."""

    @property
    def is_done(self) -> bool:
        return self.uneven or (self.values is not None and self.values.is_done)

    @property
    def problem(self) -> str:
        """Return the reason for no result; empty if there is one."""
        return refusal(self.measure, UNEVEN) if self.uneven else ""

    def add(self, prepared: Prepared) -> None:
        """Add what the measure's row has prepared of the samples of a batch."""
        # Replies belong to samples, which are not cut.
        for piece in [prepared] if prepared.replies is not None else _cut(prepared):
            self._add(piece)

    def _add(self, prepared: Prepared) -> None:
        values, codes = self._values(prepared)
        if self.template is None:
            self._declare(prepared)
        assert self.values is not None, "it was declared"
        if self.values.phase is Pass.RANGES:
            self._count(prepared)
        if self.uneven:
            return
        is_finite = np.isfinite(values)
        if not is_finite.all():
            if self.values.phase is Pass.RANGES:
                self.infinite += float(np.sum(values[~is_finite]))
            values, codes = values[is_finite], None if codes is None else codes[is_finite]
        kind, _, (values,) = apply_kind(numeric(prepared.kind), prepared.bounds, values)
        self.graded = self.graded or kind != numeric(prepared.kind)
        self.values.add(values, codes=codes)

    def end_pass(self) -> None:
        """Conclude a pass over all batches."""
        if self.values is None:
            self.values = ValueStream(grouped=False)
        self.values.end_pass()

    def estimate(self, level: float) -> Measured:
        """Return the estimate with its two-sided interval."""
        if self.template is None or not self.samples:
            return no_data(self.template or Prepared(values=np.array([])))
        if self.problem:
            return Measured(None, None, None, self.problem)
        arm = self._arm()
        groups = arm.groups if self.template.clusters is not None else None
        if STATISTICS[self.measure.statistic].chances is not None:
            return describe_chances(arm, level, groups)
        mean = describe_mean(arm, level, self.template.bounds, groups)
        return as_total(mean, self.replies) if self.measure.statistic == "count" else mean

    def bound(self, alpha: float) -> tuple[BoundedValue, str]:
        """Return the estimate with its one-sided bounds, and their method."""
        if self.template is None or not self.samples:
            return no_bounds(self.template or Prepared(values=np.array([])))
        if self.problem:
            return BoundedValue(value=None), self.problem
        if self.infinite or math.isnan(self.infinite):
            return BoundedValue(value=self.infinite, lower=None, upper=None), "unbounded"
        arm, is_count = self._arm(), self.measure.statistic == "count"
        if is_count and arm.signs == (0, 0):
            # Nothing was counted: the proportion of samples that count still has a bound.
            arm = self._nothing_counted()
        mean = bound_arm_mean(arm, alpha, self.template.bounds, arm.spread.mean)
        return as_bounded_total(mean, self.replies) if is_count else mean

    def _declare(self, prepared: Prepared) -> None:
        self.template = replace(prepared, values=np.array([]), replies=None, weights=None, keys=None)
        self.values = ValueStream(grouped=prepared.clusters is not None)

    def _values(self, prepared: Prepared) -> tuple[Floats, np.typing.NDArray[np.int64] | None]:
        """Return the values that count, with their groups: of yes or no the single replies."""
        if prepared.kind == "binary" and prepared.replies is not None:
            values, codes = prepared.replies
            return values, None if prepared.clusters is None else codes
        return prepared.values, prepared.clusters

    def _count(self, prepared: Prepared) -> None:
        size = len(prepared.values)
        if not size:
            return
        replies = size if prepared.size is None else prepared.size
        self.samples, self.replies = self.samples + size, self.replies + replies
        if prepared.kind == "binary" and prepared.clusters is None and prepared.size is not None:
            self.units.add(*(prepared.replies or (prepared.values, np.arange(size))))
        if prepared.kind == "binary" and prepared.size is not None:
            return
        # Values that are weighted by their numbers of replies need the mean of all of these.
        per_sample = replies // size
        is_even = prepared.ends is None and prepared.weights is None and replies == per_sample * size
        self.uneven = self.uneven or not is_even or self.per_sample not in (0, per_sample)
        self.per_sample = per_sample

    def _arm(self) -> Streamed:
        assert self.template is not None, "values were added"
        assert self.values is not None, "values were added"
        summary = self.values.summary()
        kind, bounds = self._shape(self.template)
        if self.units.has_several:
            summary = replace(summary, rows=self.units.rows(), groups=self.units.count)
        return _declare_arm(summary, kind, bounds)

    def _shape(self, template: Prepared) -> tuple[Kind, Numbers]:
        kind, bounds, _ = apply_kind(numeric(template.kind), template.bounds, np.array([]))
        return ("bounded" if self.graded else kind), bounds

    def _nothing_counted(self) -> Streamed:
        """Return the samples as yes or no, none of which counts."""
        assert self.values is not None, "values were added"
        summary = self.values.summary()
        if summary.groups is None or not self.units.has_several:
            zeros = ValueStream(grouped=False)
            zeros.n, zeros.low, zeros.high = self.samples, 0.0, 0.0
            zeros.distinct, zeros.counts = np.array([0.0]), np.array([self.samples])
            summary = replace(zeros.summary(), groups=summary.groups) if summary.groups is None else summary
        return _declare_arm(summary, "binary", (0.0, 1.0))


@dataclass(slots=True)
class MeanPairStream:
    """A comparison of pairs by means or geometric means, at one pair of ends of the lost samples."""

    contrast: Contrast
    facts: MetricFacts
    template: Prepared | None = None
    values: ValueStream | None = None
    unknown: bool = False
    """A value has no end, or no logarithm: the difference could be anything."""
    graded: bool = False
    noise: float = 0.0
    """The largest rounding error of a difference."""
    ends: Numbers = (math.inf, -math.inf)
    """The smallest and the largest difference."""
    samples: int = 0
    replies: tuple[int, int] = (0, 0)
    ratios: tuple[int, int] = (0, 0)
    """Replies to each sample in either arm."""
    uneven: bool = False

    @property
    def is_done(self) -> bool:
        return self.unknown or self.uneven or (self.values is not None and self.values.is_done)

    @property
    def problem(self) -> str:
        """Return the reason for no result; empty if there is one."""
        return refusal(self.contrast, UNEVEN) if self.uneven else ""

    @property
    def by_ratio(self) -> bool:
        return comparison_row(self.contrast, self.facts) is GEOMETRIC

    def add(self, candidate: Prepared, baseline: Prepared) -> None:
        """Add what the measure's row has prepared of both arms of the same samples of a batch."""
        for ours, theirs in zip(_cut(candidate), _cut(baseline), strict=True):
            self._add(ours, theirs)

    def _add(self, candidate: Prepared, baseline: Prepared) -> None:
        better = comparison_row(self.contrast, self.facts).higher_is_better(self.contrast, self.facts)
        first, second = (candidate, baseline) if better else (baseline, candidate)
        if self.template is None:
            self._declare(first)
        assert self.values is not None, "it was declared"
        if self.values.phase is Pass.RANGES and len(first.values):
            self._count(first, second)
        if self.unknown or self.uneven or not len(first.values):
            return
        if not all(np.isfinite(arm.values).all() for arm in (first, second)) or (
            self.by_ratio and min(float(arm.values.min()) for arm in (first, second)) <= 0
        ):
            self.unknown = True
            return
        differences, noise = self._subtract(first, second)
        if self.values.phase is Pass.RANGES:
            self.noise = max(self.noise, noise)
            self.ends = min(self.ends[0], float(differences.min())), max(self.ends[1], float(differences.max()))
        if not self.by_ratio and first.largest_change is not None:
            differences = np.clip(differences, *self._shape(first)[1])
        self.values.add(differences, codes=first.clusters, keys=first.keys)

    def end_pass(self) -> None:
        """Conclude a pass over all batches."""
        if self.values is None:
            self.values = ValueStream(grouped=False)
        if self.values.phase is Pass.RANGES and self.samples:
            # Equal differences must be recognised as equal, as in memory.
            if self.ends[1] - self.ends[0] <= self.noise:
                self.values.take_as_equal()
            self.values.with_blocks = self.values.grouped or self._kind != "binary" or self.graded
        self.values.end_pass()

    def difference(self, alpha: float) -> Difference | None:
        """Return candidate minus baseline, positive where the candidate is better; None where it could be anything."""
        if self.unknown or self.template is None or not self.samples or self.problem:
            return None
        if self.by_ratio:
            arms = self._arms("unbounded", OPEN)
            bounds = apply_kind("positive", self.template.bounds, np.array([]))[1]
            return claim_geometric_means(arms, bounds, alpha)
        kind, bounds, _ = apply_kind(self._kind, self.template.bounds, np.array([]))
        difference = compare_arms(self._arms("bounded" if self.graded else kind, bounds), self.template, alpha)
        return as_total_difference(difference, max(self.replies)) if self.contrast.statistic == "count" else difference

    @property
    def _kind(self) -> Kind:
        return numeric(None if self.template is None else self.template.kind)

    def _declare(self, first: Prepared) -> None:
        self.template = replace(first, values=np.array([]), replies=None, weights=None, keys=None)
        with_keys = self.by_ratio or self._kind != "binary"
        self.values = ValueStream(grouped=first.clusters is not None, with_blocks=True, with_keys=with_keys)

    def _count(self, first: Prepared, second: Prepared) -> None:
        size = len(first.values)
        replies = tuple(size if arm.size is None else arm.size for arm in (first, second))
        ratios = replies[0] // size, replies[1] // size
        is_even = all(arm.ends is None and arm.weights is None for arm in (first, second))
        is_even = is_even and replies == (ratios[0] * size, ratios[1] * size)
        self.uneven = self.uneven or not is_even or (self.samples > 0 and ratios != self.ratios)
        self.ratios, self.samples = ratios, self.samples + size
        self.replies = self.replies[0] + replies[0], self.replies[1] + replies[1]

    def _subtract(self, first: Prepared, second: Prepared) -> tuple[Floats, float]:
        """Return the differences of the pairs, of amounts those of their logarithms, and the largest rounding error."""
        if self.by_ratio:
            values = without_relative_rounding(first.values, second.values)
            _, _, (ours, theirs) = apply_kind("positive", first.bounds, first.values, values)
            return round_difference(np.log(ours), np.log(theirs))
        values = without_rounding(first.values, second.values, first.bounds)
        kind, _, (ours, theirs) = apply_kind(numeric(first.kind), first.bounds, first.values, values)
        self.graded = self.graded or kind != numeric(first.kind)
        check_pairs_reach(ours, theirs, first.largest_change)
        if kind == "binary":
            # Differences of 0 and 1 have no rounding error; the noise is that of the larger one all the same.
            return ours - theirs, ROUNDING * float(max(ours.max(initial=0.0), theirs.max(initial=0.0)))
        return round_difference(ours, theirs)

    def _shape(self, first: Prepared) -> tuple[Kind, Numbers]:
        kind, bounds, _ = apply_kind(numeric(first.kind), first.bounds, np.array([]))
        return shape_of_differences(kind, bounds, first.largest_change)

    def _arms(self, kind: Kind, bounds: Numbers) -> Arms:
        assert self.template is not None, "values were added"
        assert self.values is not None, "values were added"
        summary = self.values.summary()
        reach = None if self.by_ratio else self.template.largest_change
        arm = _declare_arm(summary, kind, bounds)
        differences = _declare_arm(summary, *shape_of_differences(kind, bounds, reach))
        return Arms(candidate=arm, baseline=arm, differences=differences, monte_carlo=self.template.monte_carlo)


def _cut(prepared: Prepared) -> Iterator[Prepared]:
    """Yield the samples in pieces that stay in the processor's cache."""
    size = len(prepared.values)
    if size <= _PIECE:
        yield prepared
        return
    for start in range(0, size, _PIECE):
        part = slice(start, start + _PIECE)
        values = prepared.values[part]
        yield replace(
            prepared,
            values=values,
            clusters=None if prepared.clusters is None else prepared.clusters[part],
            keys=None if prepared.keys is None else prepared.keys[part],
            # Without weights all samples have equal numbers of replies.
            size=None if prepared.size is None else prepared.size * values.size // size,
            replies=None,
        )


def _declare_arm(summary: Summary, kind: Kind, bounds: Numbers) -> Streamed:
    nothing = np.array([], dtype=np.intp)
    clusters = None if summary.groups is None else nothing
    return Streamed(values=np.array([]), kind=kind, bounds=bounds, clusters=clusters, summary=summary)
