"""What one member of an ensemble said, as a vote counts it, and what a vote came to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_crucible.records import Reply

CUT = ("length", "content_filter")
"""How a reply ends that is no whole answer: it abstains."""
Indecision = Literal["abstained", "tied", "divided"]
"""Why an ensemble has no answer: no member gave one, the best are equal, or the rule wants more agreement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """One member's reply, read as a vote."""

    member: str
    reply: Reply
    answer: str | None
    """The reply, normalised; None abstains."""
    weight: float = 1.0

    @property
    def is_cast(self) -> bool:
        """False for an abstention, and for a vote that weighs nothing: neither can win."""
        return self.answer is not None and self.weight > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a vote came to."""

    chosen: Ballot | None
    """The ballot whose reply is the ensemble's; None when there is no answer, and `why` says why."""
    consensus: float
    """The share of the cast votes, by weight, that is for the winner (without one: for the answer with the most)."""
    totals: Mapping[str, float] = field(default_factory=dict)
    """Answer -> the weight of its votes, in the order in which the answers were first given."""
    tied: bool = False
    why: Indecision | Literal[""] = ""


def confidence(reply: Reply) -> float | None:
    """exp of the mean of the log-probabilities of the reply's tokens, their geometric mean; None where there are none.

    >>> round(confidence(Reply(text="4.2", logprobs=(-0.1, -0.3))), 3), confidence(Reply(text="4.2"))
    (0.819, None)
    """
    if not reply.logprobs:
        return None
    mean = sum(reply.logprobs) / len(reply.logprobs)
    return None if math.isnan(mean) else math.exp(min(mean, 0.0))  # servers round, and -0.0 may come as 1e-7
