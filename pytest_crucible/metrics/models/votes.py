"""Several verdicts of a judge on one question, each a draw of its own, and what they add up to."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from pytest_crucible.metrics.models.scorers import Judge, NoVerdict, request_verdict
from pytest_crucible.records.errors import SpecError
from pytest_crucible.stats.number_format import quantity

Votes = tuple[str | None, ...]
"""The verdict of each vote; None where it is not readable."""
Combine = Literal["majority", "mean"]


def check_votes(subject: str, votes: object, combine: object = "majority") -> None:
    """Raise SpecError for an invalid number of votes, or way to combine them; `subject` is the metric, as in messages."""
    if type(votes) is not int or votes < 1:
        raise SpecError(f"{subject} has votes={votes!r}: expected a whole number from 1, for example votes=3")
    if combine not in get_args(Combine):
        raise SpecError(f"{subject} has combine={combine!r}: write 'majority' or 'mean'")


async def request_votes(judge: Judge, prompt: str, names: Iterable[str], votes: int) -> Votes:
    """Return the judge's verdicts on a prompt. Raises BackendError, and NoVerdict if no vote is readable."""
    levels = tuple(names)
    # All at once: they are independent requests.
    verdicts = await asyncio.gather(
        *(request_verdict(judge, prompt, levels, vote=vote) for vote in range(1, votes + 1)), return_exceptions=True
    )
    errors = [verdict for verdict in verdicts if isinstance(verdict, BaseException)]
    serious = [error for error in errors if not isinstance(error, NoVerdict)]
    if serious or len(errors) == votes:
        raise (serious or errors)[0]
    return tuple(verdict if isinstance(verdict, str) else None for verdict in verdicts)


def leading_verdicts(votes: Votes) -> tuple[str, ...]:
    """Return the verdict with most votes, or those that tie. Raises NoVerdict if unreadable votes could have decided.

    >>> leading_verdicts(("good", "poor", "good")), leading_verdicts(("good", "poor")), leading_verdicts(("good", "good", None))
    (('good',), ('good', 'poor'), ('good',))
    """
    counts, unreadable = Counter(vote for vote in votes if vote is not None), votes.count(None)
    (_, most), *others = counts.most_common()
    second = others[0][1] if others else 0
    if unreadable and most - second <= unreadable:
        raise NoVerdict(f"{quantity(unreadable, 'unreadable vote')} of {len(votes)} could have decided")
    return tuple(verdict for verdict, count in counts.items() if count == most)


def combined_value(votes: Votes, values: Mapping[str, float], combine: Combine) -> float:
    """Return the value of the verdict with most votes, where verdicts tie the mean of theirs; or the mean over all votes.

    Raises NoVerdict if unreadable votes could have changed it.
    """
    if combine == "mean" and None in votes:
        raise NoVerdict(
            f"{quantity(votes.count(None), 'vote')} of {len(votes)} cannot be read, so their mean is unknown"
        )
    verdicts: Sequence[str | None] = votes if combine == "mean" else leading_verdicts(votes)
    return math.fsum(values[verdict] for verdict in verdicts if verdict is not None) / len(verdicts)


def is_tied(votes: Sequence[str | None]) -> bool:
    """Return whether several verdicts have the most votes."""
    counts = sorted(Counter(vote for vote in votes if vote is not None).values(), reverse=True)
    return len(counts) > 1 and counts[0] == counts[1]
