"""Percentiles of more samples than fit into memory, and their differences; samples with one reply each and without groups."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pytest_crucible.measures.percentiles import (
    ORDER_STATISTICS,
    bound_of_ranks,
    compare_quantiles,
    describe_difference,
    describe_quantile,
)
from pytest_crucible.measures.row import Difference, Measured, Prepared, no_bounds, no_data
from pytest_crucible.measures.statistic import refusal
from pytest_crucible.measures.table import comparison_row
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import BoundedValue, Contrast, Measure, MetricFacts
from pytest_crucible.stats.ranks.quantiles import QuantileArm, share_correlation
from pytest_crucible.stats.streams.orders import OrderStream

GROUPS = "bounds of a percentile of groups, or of several replies to a sample, need all values at once"


@dataclass(slots=True)
class PercentileStream:
    """A percentile of one arm, at one end of the lost samples."""

    measure: Measure
    orders: OrderStream
    template: Prepared | None = None
    uneven: bool = False
    """There are groups, or several replies to a sample."""

    @classmethod
    def of(cls, measure: Measure) -> PercentileStream:
        return cls(measure, OrderStream(measure.quantile or 0.5))

    @property
    def is_done(self) -> bool:
        return self.uneven or self.orders.is_done

    @property
    def problem(self) -> str:
        """Return the reason for no result; empty if there is one."""
        return refusal(self.measure, GROUPS) if self.uneven else ""

    def add(self, prepared: Prepared) -> None:
        """Add what the measure's row has prepared of the samples of a batch."""
        if self.template is None:
            self.template = replace(prepared, values=np.array([]), clusters=None, keys=None)
        self.uneven = self.uneven or prepared.clusters is not None
        if not self.uneven and prepared.values.size:
            self.orders.add(prepared.values)

    def end_pass(self) -> None:
        """Conclude a pass over all batches."""
        self.orders.end_pass()

    def estimate(self, level: float) -> Measured:
        """Return the percentile with its two-sided interval."""
        if self.template is None or not self.orders.n or self.uneven:
            return replace(no_data(self.template or Prepared(values=np.array([]))), method=self.problem or "no data")
        arm = self.arm()
        return describe_quantile(arm.value, arm.bound, ORDER_STATISTICS, None, level)

    def bound(self, alpha: float) -> tuple[BoundedValue, str]:
        """Return the percentile with its one-sided bounds, and their method."""
        if self.template is None or not self.orders.n or self.uneven:
            return no_bounds(Prepared(values=np.array([]), problem=self.problem))
        arm = self.arm()
        bounds = BoundedValue(value=arm.value, lower=arm.bound(alpha, "lower"), upper=arm.bound(alpha, "upper"))
        return bounds, ORDER_STATISTICS

    def arm(self) -> QuantileArm:
        assert self.template is not None, "values were added"
        return QuantileArm(self.orders.quantile, bound_of_ranks(self.orders.at, self.orders.n, self.template))


@dataclass(slots=True)
class PercentilePairStream:
    """The difference of two percentiles on the same samples; a third pass counts samples below both."""

    contrast: Contrast
    facts: MetricFacts
    first: PercentileStream
    second: PercentileStream
    counts: tuple[int, int, int] | None = None
    """Samples up to the first quantile, up to the second, and up to both."""
    is_counted: bool = False

    @classmethod
    def of(cls, contrast: Contrast, facts: MetricFacts) -> PercentilePairStream:
        return cls(contrast, facts, PercentileStream.of(contrast), PercentileStream.of(contrast))

    @property
    def is_done(self) -> bool:
        return self.is_counted or bool(self.problem)

    @property
    def problem(self) -> str:
        """Return the reason for no result; empty if there is one."""
        return self.first.problem or self.second.problem

    def add(self, candidate: Prepared, baseline: Prepared) -> None:
        """Add what the measure's row has prepared of both arms of the same samples of a batch."""
        better = comparison_row(self.contrast, self.facts).higher_is_better(self.contrast, self.facts)
        pair = (candidate, baseline) if better else (baseline, candidate)
        if self.counts is None:
            self.first.add(pair[0])
            self.second.add(pair[1])
            return
        quantiles = self.first.orders.quantile, self.second.orders.quantile
        below = [arm.values <= quantile for arm, quantile in zip(pair, quantiles, strict=True)]
        self._count(*(int(flags.sum()) for flags in (*below, below[0] & below[1])))

    def end_pass(self) -> None:
        """Conclude a pass over all batches."""
        if self.counts is not None or not self.first.orders.n:
            self.is_counted = True
            return
        self.first.end_pass()
        self.second.end_pass()
        if self.first.is_done:
            self.counts = (0, 0, 0)

    def difference(self, alpha: float) -> Difference | None:
        """Return candidate minus baseline, positive where the candidate is better; None where it could be anything."""
        if self.problem or self.counts is None or self.first.template is None:
            return None
        arms = self.first.arm(), self.second.arm()
        if not all(math.isfinite(arm.value) for arm in arms):
            return None
        n = self.first.orders.n
        difference = describe_difference(
            replace(self.first.template, size=n), (arms[0].value, arms[1].value), f"mover of {ORDER_STATISTICS}"
        )
        return compare_quantiles(difference, arms, share_correlation(n, *self.counts), self.first.orders.q, alpha)

    def _count(self, first: int, second: int, both: int) -> None:
        assert self.counts is not None, "it is the third pass"
        self.counts = self.counts[0] + first, self.counts[1] + second, self.counts[2] + both
