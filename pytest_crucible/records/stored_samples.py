"""Stored samples: the outcome of each in an arm, and the conversations about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.outcomes import STOP, Unit
from pytest_crucible.records.usage import JUDGE, ROLE

OutcomeState = Literal["answered", "failed", "lost", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmReply:
    """One arm's reply to one sample in one repeat, or the reason why it is missing."""

    repeat: int
    state: OutcomeState
    text: str
    detail: str
    """The class of a failure or loss, and its message."""
    latency_s: float | None
    output_tokens: int | None
    input_tokens: int | None = None
    finish: str = STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One sample, and for each arm, in the order of the arms, its reply in each repeat."""

    position: int
    input: Any
    expected: Any
    replies: tuple[tuple[ArmReply, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleColumns:
    """Numbers of all samples of an experiment, as parallel columns in the dataset's order. A missing number is NaN."""

    ids: Sequence[str]
    groups: Sequence[str | None]
    scores: Mapping[str, tuple[Sequence[float], ...]]
    """Metric -> arm -> mean over the repeats."""
    latency_s: tuple[Sequence[float], ...]
    """Arm -> mean over the repeats, in seconds."""
    states: tuple[Sequence[OutcomeState], ...]
    """Arm -> the worst state of a sample's repeats."""
    expected: Sequence[Any] = ()
    """The samples' `expected`, where a statistic of the plan uses it."""
    replies: Mapping[str, tuple[Sequence[Sequence[float]], ...]] = field(default_factory=dict)
    """Metric -> arm -> a row of single replies for each sample, where a sample has several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCall:
    """One call of `sampler.generate`, the part that one member of an ensemble had in it, or a judge's."""

    call: int
    """Counts the calls of the unit from 1, in the order in which the test sent them."""
    request: int
    """Counts equal requests of the unit from 1: the same prompt sent twice is two draws."""
    member: str
    """The member of an ensemble that replied, `role:NAME` or `judge:NAME`; empty for the arm's own reply."""

    @property
    def is_judge(self) -> bool:
        """True for a request of a metric to the judge."""
        return self.member.startswith(JUDGE)

    @property
    def is_role(self) -> bool:
        """True for a call of another model in a role."""
        return self.member.startswith(ROLE)

    messages: Any
    """The prompt as it was sent: a text, a list of messages, or token ids."""
    parameters: Mapping[str, Any] | None
    """Sampling parameters of the call itself; None if it used those of the adapter."""
    text: str | None
    """None without a reply: `error` then has the reason."""
    reasoning: str
    """What the model reasoned before its answer; empty if it sent none."""
    think: int
    """Leading characters of the text that are the reasoning, in a `<think>` block; 0 where it was sent apart."""
    error: str
    paid_by: str | None
    """The run that paid for a cached or copied reply: its id, empty if that is not known; None for this run."""
    cached: bool | None = None
    """Whether the reply was read from the reply cache; None where that is not known, or there is no reply."""
    answered_by: Sequence[str] | None = None
    """What the server says of itself, as in the table `calls`; None where it says nothing."""
    tool_calls: Sequence[Any] = ()
    """The tools that the reply calls; none in stores of formats before 13."""
    is_recorded: bool = True
    """False where messages or reply are stored as their hashes alone (--crucible-trace=off)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One sample in one arm and repeat."""

    unit: Unit
    arm: str
    state: OutcomeState
    detail: str
    """Why the unit failed, was skipped or is lost."""
    reply: str
    """The text that was scored."""
    calls: tuple[StoredCall, ...]
    """Empty for stores of formats before 4, for imported results and for tests that ask a model by themselves."""
    scores: Mapping[str, bool | float | str | None]
    input: Any = None
    """The input of the sample as its variant sends it; None for the original sample."""
    draw: str = ""
    """The reply among those of the arm to the sample, such as `terse.txt, round 2`; empty if there is one reply."""
