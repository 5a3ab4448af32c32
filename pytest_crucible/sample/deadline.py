"""The deadline of a run: units in flight are cut off, and the rest are lost without a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pytest_crucible.records import Outcome

Work = Callable[[Outcome], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time on this process's clock, and the user's words for it."""

    at: float
    """The deadline on the clock of `time.monotonic()`, which the event loop uses, too."""
    text: str

    @classmethod
    def after(cls, seconds: float, text: str) -> Deadline:
        return cls(time.monotonic() + seconds, text)

    def has_passed(self) -> bool:
        return time.monotonic() >= self.at

    def lose(self, outcome: Outcome) -> Outcome:
        """Return the outcome of a unit that was cut off: a new one, because a thread may still write to the old one."""
        detail = f"the deadline of this run ({self.text}) has passed: continue with --crucible-resume"
        return Outcome(outcome.unit, lost="deadline", detail=detail, calls=list(outcome.calls), sample=outcome.sample)


def cut_off_by(deadline: Deadline | None, outcome: Outcome, work: Work) -> Awaitable[Outcome]:
    """Finish a unit under the deadline. Work that never waits is finished even after it."""
    return work(outcome) if deadline is None else _cut_off_by(deadline, outcome, work)


def ask_before(deadline: Deadline | None, outcome: Outcome, ask: Work) -> Awaitable[Outcome]:
    """Run one unit, unless the deadline has passed."""
    return ask(outcome) if deadline is None else _ask_before(deadline, outcome, ask)


async def _cut_off_by(deadline: Deadline, outcome: Outcome, work: Work) -> Outcome:
    try:
        async with asyncio.timeout_at(deadline.at):
            return await work(outcome)
    except TimeoutError:
        return deadline.lose(outcome)


async def _ask_before(deadline: Deadline, outcome: Outcome, ask: Work) -> Outcome:
    return deadline.lose(outcome) if deadline.has_passed() else await _cut_off_by(deadline, outcome, ask)
