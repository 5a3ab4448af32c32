"""The reply being scored (experiment, sample, repeat), so that a scoring model's requests are charged to it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, NamedTuple

from pytest_crucible.records import ModelCall


class ScoredReply(NamedTuple):
    """The reply to which a scoring model's request belongs: it is counted, paid for and cached there."""

    experiment: str = ""
    sample: str = ""
    repeat: int = 0
    calls: list[ModelCall] | None = None
    """Receives the requests, which are stored with those of the test."""
    variant: str = ""
    """The variant that the reply is to; empty for the original sample."""
    client: Any = None
    """The SDK's SamplingClient of the arm, for metrics that measure the model itself; None if it is not a Tinker model."""


_CURRENT: ContextVar[ScoredReply] = ContextVar("crucible_scored", default=ScoredReply())  # noqa: B039 - it is immutable


def set_current_reply(
    experiment: str,
    sample: str,
    repeat: int,
    calls: list[ModelCall] | None = None,
    variant: str = "",
    client: Any = None,
) -> None:
    """Set the sample and repeat whose reply this task scores from now on, and the list that its requests are added to."""
    _CURRENT.set(ScoredReply(experiment, sample, repeat, calls, variant, client))


def current_reply() -> ScoredReply:
    """Return the reply being scored; with an empty name outside an experiment."""
    return _CURRENT.get()
