"""Targets and comparisons of more samples than fit into memory: batches of prepared values in, the results of memory out.

A batch is what a row of the table prepares of whole samples. Order and split of the batches change no bit of a result. A stream
reads all batches in one or more passes. Nothing is planned from it, and it has no effect sizes.
"""

from __future__ import annotations

from pytest_crucible.measures.mean_streams import MeanPairStream, MeanStream
from pytest_crucible.measures.percentile_streams import GROUPS, PercentilePairStream, PercentileStream
from pytest_crucible.measures.row import Difference, Measured, Prepared
from pytest_crucible.measures.statistic import refusal as refusal
from pytest_crucible.measures.table import OF_MEANS, STATISTICS, comparison_row
from pytest_crucible.records import BoundedValue, Contrast, Measure, MetricFacts

_QUANTILE = "quantile"
_STREAMED = ("mean", "rate", "count", "pass^", "pass@", _QUANTILE)


def stream_problem(measure: Measure, facts: MetricFacts, *, clustered: bool = False, replies: int = 1) -> str:
    """Explain why a measure is not computed of more than `MOST_REPLIES` replies; empty if it is."""
    reason = _reason(measure, facts, is_grouped=clustered or replies > 1)
    return reason and refusal(measure, reason)


def _reason(measure: Measure, facts: MetricFacts, *, is_grouped: bool) -> str:
    if measure.statistic not in _STREAMED:
        return f"{STATISTICS[measure.statistic].title} needs all of them at once"
    if measure.statistic == _QUANTILE and is_grouped:
        return GROUPS
    if not isinstance(measure, Contrast):
        return ""
    if comparison_row(measure, facts) is OF_MEANS:
        return "the bounds of a ratio of means need all pairs at once"
    return "arms with samples of their own are compared with all samples at once" if measure.unpaired else ""


class ArmStream:
    """A target or an estimate in one arm, at one end of the lost samples."""

    def __init__(self, measure: Measure) -> None:
        is_quantile = measure.statistic == _QUANTILE
        self.measure = measure
        self.stream: MeanStream | PercentileStream = (
            PercentileStream.of(measure) if is_quantile else MeanStream(measure)
        )

    @property
    def is_done(self) -> bool:
        return self.stream.is_done

    @property
    def problem(self) -> str:
        """Return the reason for no result; empty if there is one."""
        return self.stream.problem

    def add(self, prepared: Prepared) -> None:
        """Add what the measure's row has prepared of the samples of a batch."""
        self.stream.add(prepared)

    def merge(self, other: ArmStream) -> None:
        """Add what a copy of this stream, made at the start of this pass, was given since."""
        # Both were opened for one measure, so that they are of one class.
        self.stream.merge(other.stream)  # type: ignore[arg-type]

    def end_pass(self) -> None:
        """Conclude a pass over all batches."""
        self.stream.end_pass()

    def estimate(self, level: float) -> Measured:
        """Return the estimate with its two-sided interval."""
        return self.stream.estimate(level)

    def bound(self, alpha: float) -> tuple[BoundedValue, str]:
        """Return the estimate with its one-sided bounds, and their method."""
        return self.stream.bound(alpha)


class PairStream:
    """A comparison of pairs, at one pair of ends of the lost samples."""

    def __init__(self, contrast: Contrast, facts: MetricFacts) -> None:
        is_quantile = contrast.statistic == _QUANTILE
        self.contrast, self.facts = contrast, facts
        self.stream: MeanPairStream | PercentilePairStream = (
            PercentilePairStream.of(contrast, facts) if is_quantile else MeanPairStream(contrast, facts)
        )

    @property
    def is_done(self) -> bool:
        return self.stream.is_done

    @property
    def problem(self) -> str:
        """Return the reason for no result; empty if there is one."""
        return self.stream.problem

    def add(self, candidate: Prepared, baseline: Prepared) -> None:
        """Add what the measure's row has prepared of both arms of the same samples of a batch."""
        self.stream.add(candidate, baseline)

    def merge(self, other: PairStream) -> None:
        """Add what a copy of this stream, made at the start of this pass, was given since."""
        self.stream.merge(other.stream)  # type: ignore[arg-type]

    def end_pass(self) -> None:
        """Conclude a pass over all batches."""
        self.stream.end_pass()

    def difference(self, alpha: float) -> Difference | None:
        """Return candidate minus baseline, positive where the candidate is better; None where it could be anything."""
        return self.stream.difference(alpha)
