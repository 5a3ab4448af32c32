"""The stored conversation of one unit: each call with the messages as they were sent, and the reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_crucible.records.outcomes import Unit
from pytest_crucible.records.samples import OutcomeState
from pytest_crucible.records.usage import JUDGE


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCall:
    """One call of `sampler.generate`, the part that one member of an ensemble had in it, or a judge's."""

    call: int
    """Counts the calls of the unit from 1, in the order in which the test sent them."""
    request: int
    """Counts equal requests of the unit from 1: the same prompt sent twice is two draws."""
    member: str
    """The member of an ensemble that replied, or `judge:NAME`; empty for the arm's own reply."""

    @property
    def is_judge(self) -> bool:
        """True for a request of a metric to the judge."""
        return self.member.startswith(JUDGE)

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
