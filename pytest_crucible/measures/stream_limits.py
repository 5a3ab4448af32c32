"""The number of replies from which on a run is analysed in streams, and the note of what is then left undecided."""

from __future__ import annotations

from pytest_crucible.records import Measure

MOST_REPLIES = 2_000_000
"""An experiment of more replies is analysed in streams. So many, with two metrics, take about 1 GiB in memory."""


def refusal(measure: Measure, reason: str) -> str:
    """Return the note of a measure that is undecided for so many replies.

    >>> refusal(Measure(metric="score", statistic="auroc"), "it needs all of them at once")
    'auroc(score) is not computed above 2,000,000 replies: it needs all of them at once'
    """
    return f"{measure.expression} is not computed above {MOST_REPLIES:,} replies: {reason}"
