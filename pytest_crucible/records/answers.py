"""What was asked, answered and seen of it: requests, replies, outcomes, observations, and what is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_crucible.records.words import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to one backend."""

    input: Any
    sample: str
    epoch: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    experiment: str = ""
    arm: str = ""
    """Who asks: what is told of a request is told with both, so that two experiments never mix."""
    call: int = 1
    """How often, with this time, the sample has asked exactly this in this repeat: the same question twice is two draws."""
    member: str = ""
    """The adapter that is asked, where it answers for an ensemble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's answer, or any value that the test function returned (then `text` is its string)."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_s: float | None = None
    """Between sending the request that was answered and its answer: neither waiting for a turn nor failed attempts."""
    first_token_s: float | None = None
    finish: str = "stop"
    """`length` when the answer was cut at max_tokens, `content_filter` when the provider withheld it: failures of the
    candidate, not of the world. `tool_calls` when it wants a tool. `abstained`, `tied` or `divided` when an ensemble has no
    answer: the text is then empty."""
    value: Any = None
    logprobs: tuple[float, ...] | None = None
    """Natural logarithms of the probabilities of the answer's tokens."""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    alternatives: tuple[Reply, ...] = ()
    """The further choices, where more than one was asked for."""
    model: str = ""
    """What answered, as it calls itself."""
    cost_usd: float | None = None
    """None where the price is not known: that is not 0."""
    cached: bool = False
    """Read from the reply cache: tokens, latency and cost are those of the request that was once sent."""
    members: Mapping[str, Reply] = field(default_factory=dict)
    """What the members of an ensemble answered, those that did; the `value` of each is its answer as it was counted, or None."""
    lost_members: Mapping[str, str] = field(default_factory=dict)
    """The members of an ensemble that could not be had, though they were asked, and what happened."""
    consensus: float | None = None
    """The share of an ensemble's votes that is for its answer; None where there was no vote."""


Failure = Literal["assertion", "timeout", "truncated", "filtered"]
LostReason = Literal["error", "scorer", "member", "budget", "deadline", "uncached"]
CUT_SHORT = frozenset({"budget", "deadline"})
"""Lost because nothing more may be asked: the sample itself has not failed, and a resumed run goes on with it."""


@dataclass(slots=True)
class Outcome:
    """What became of one sample in one arm and epoch. At most one of failure, skipped and lost is set."""

    arm: int
    position: int
    epoch: int
    reply: Reply | None = None
    scores: dict[str, Value | None] = field(default_factory=dict)
    failure: Failure | None = None
    skipped: bool = False
    lost: LostReason | None = None
    detail: str = ""
    started: float = 0.0


UNEXPLAINED = "not applicable"
"""The reason of a None that came without one."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One metric's value for one reply. None says that the metric does not apply, and `reason` why."""

    arm: int
    position: int
    epoch: int
    metric: str
    value: Value | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """A value that the world withheld: not a zero and not absent. `metric` is None when the whole reply is lost."""

    arm: int
    position: int
    epoch: int
    metric: str | None
    reason: LostReason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreColumns:
    """All values of one metric in one arm, as parallel columns. A value of None does not apply."""

    positions: Sequence[int]
    epochs: Sequence[int]
    values: Sequence[float | None]
    is_bool: Sequence[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All that is known of one arm, as parallel columns over its answered units."""

    positions: Sequence[int]
    epochs: Sequence[int]
    failures: Sequence[Failure | None]
    skipped: Sequence[bool]
    scores: Mapping[str, ScoreColumns]
    lost: Sequence[Lost]
    labels: frozenset[str] = frozenset()
    """Metrics whose values are text."""
    told: Mapping[str, Sequence[tuple[int, int, str]]] = field(default_factory=dict)
    """Position, repeat and text of what judged metrics tell beside their scores."""
