"""The number of samples from which on a run is analysed in streams, and the note of what is then undecided."""

from __future__ import annotations

from pytest_crucible.records import Measure

MOST_SAMPLES = 1_000_000
"""Runs of more samples are analysed in streams. So many are compared in memory in less than a minute and a gigabyte."""


def refusal(measure: Measure, reason: str) -> str:
    """Return the note of a measure that is undecided for so many samples.

    >>> refusal(Measure(metric="score", statistic="auroc"), "it needs all of them at once")
    'auroc(score) is not computed above 1,000,000 samples: it needs all of them at once'
    """
    return f"{measure.expression} is not computed above {MOST_SAMPLES:,} samples: {reason}"
