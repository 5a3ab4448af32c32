"""Targets and comparisons of more samples than fit into memory: batches of prepared values in, the results of memory out.

A batch is what a row of the table prepares of whole samples. Order and split of the batches change no bit of a result. A stream
reads all batches in one or more passes. Nothing is planned from it, and it has no effect sizes.
"""

from __future__ import annotations

from pytest_crucible.measures.mean_streams import MeanPairStream, MeanStream
from pytest_crucible.measures.percentile_streams import GROUPS, PercentilePairStream, PercentileStream
from pytest_crucible.measures.statistic import refusal as refusal
from pytest_crucible.measures.table import OF_MEANS, STATISTICS, comparison_row
from pytest_crucible.records import Contrast, Measure, MetricFacts

ArmStream = MeanStream | PercentileStream
PairStream = MeanPairStream | PercentilePairStream
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


def open_arm(measure: Measure) -> ArmStream:
    """Return the stream of a target or an estimate in one arm, at one end of the lost samples."""
    return PercentileStream.of(measure) if measure.statistic == _QUANTILE else MeanStream(measure)


def open_pair(contrast: Contrast, facts: MetricFacts) -> PairStream:
    """Return the stream of a comparison of pairs, at one pair of ends of the lost samples."""
    is_quantile = contrast.statistic == _QUANTILE
    return PercentilePairStream.of(contrast, facts) if is_quantile else MeanPairStream(contrast, facts)
