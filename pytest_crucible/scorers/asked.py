"""For whom a model is asked that scores: experiment, sample and repeat of the reply that is being scored."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple


class Scored(NamedTuple):
    """Where a question about a reply belongs, so that it is counted, paid for and kept there."""

    experiment: str = ""
    sample: str = ""
    epoch: int = 0


_SCORED: ContextVar[Scored] = ContextVar("crucible_scored", default=Scored())  # noqa: B039 - it is immutable


def scoring_for(experiment: str, sample: str, epoch: int) -> None:
    """From here on, in this task, a reply to this sample is scored."""
    _SCORED.set(Scored(experiment, sample, epoch))


def scored() -> Scored:
    """What is being scored; an empty name outside an experiment."""
    return _SCORED.get()
