"""The note of a measure that is undecided for more replies than are analysed in memory."""

from __future__ import annotations

from pytest_crucible.records import Measure


def refusal(measure: Measure, reason: str) -> str:
    """Return the note of a measure that is undecided for so many replies.

    >>> refusal(Measure(metric="score", statistic="auroc"), "it needs all of them at once")
    'auroc(score) is not computed for so many replies: it needs all of them at once'
    """
    return f"{measure.expression} is not computed for so many replies: {reason}"
