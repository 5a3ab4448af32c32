"""A member's reply as a ballot, and the result of a vote."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_crucible.records import Reply

# Finish reasons of an incomplete reply, which abstains.
INCOMPLETE = ("length", "content_filter")
Indecision = Literal["abstained", "tied", "divided"]
"""Why an ensemble has no answer: all abstained, the best are tied, or the rule needs more agreement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """One member's reply, read as a vote."""

    member: str
    reply: Reply
    answer: str | None
    """The normalised reply; None abstains."""
    weight: float = 1.0

    @property
    def is_cast(self) -> bool:
        """False for an abstention and for a vote of weight 0: neither can win."""
        return self.answer is not None and self.weight > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The result of a vote."""

    chosen: Ballot | None
    """The ballot whose reply is the ensemble's; None without an answer, see `why`."""
    consensus: float
    """The winner's share of the cast votes, by weight; without a winner, the largest share."""
    totals: Mapping[str, float] = field(default_factory=dict)
    """The weight of each answer's votes, in the order in which the answers were first given."""
    tied: bool = False
    why: Indecision | Literal[""] = ""


def confidence(reply: Reply) -> float | None:
    """Return the geometric mean of the reply's token probabilities; None without log-probabilities.

    >>> round(confidence(Reply(text="4.2", logprobs=(-0.1, -0.3))), 3), confidence(Reply(text="4.2"))
    (0.819, None)
    """
    if not reply.logprobs:
        return None
    mean = sum(reply.logprobs) / len(reply.logprobs)
    # Servers round: a log-probability of 0 may arrive as 1e-7.
    return None if math.isnan(mean) else math.exp(min(mean, 0.0))
