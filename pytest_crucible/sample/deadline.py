"""When a run stops asking: what is under way then is cut off, and the rest is lost without being asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pytest_crucible.records import Outcome

Work = Callable[[Outcome], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time of this process's clock, and how the user wrote it."""

    at: float
    """As `time.monotonic()` tells it, and the loop too."""
    text: str

    @classmethod
    def after(cls, seconds: float, text: str) -> Deadline:
        return cls(time.monotonic() + seconds, text)

    def has_passed(self) -> bool:
        return time.monotonic() >= self.at

    def lose(self, outcome: Outcome) -> Outcome:
        """What becomes of a unit that it cut off. A new outcome: whatever still runs in a thread knows only the old one."""
        detail = f"the deadline of this run ({self.text}) has passed: --crucible-resume goes on"
        return Outcome(outcome.arm, outcome.position, outcome.epoch, lost="deadline", detail=detail)


def cut_off_by(deadline: Deadline | None, outcome: Outcome, work: Work) -> Awaitable[Outcome]:
    """Do what is left of a unit: what never waits is done, however late it is."""
    return work(outcome) if deadline is None else _cut_off_by(deadline, outcome, work)


def ask_before(deadline: Deadline | None, outcome: Outcome, ask: Work) -> Awaitable[Outcome]:
    """Ask for one unit, if there is time."""
    return ask(outcome) if deadline is None else _ask_before(deadline, outcome, ask)


async def _cut_off_by(deadline: Deadline, outcome: Outcome, work: Work) -> Outcome:
    try:
        async with asyncio.timeout_at(deadline.at):
            return await work(outcome)
    except TimeoutError:
        return deadline.lose(outcome)


async def _ask_before(deadline: Deadline, outcome: Outcome, ask: Work) -> Outcome:
    return deadline.lose(outcome) if deadline.has_passed() else await _cut_off_by(deadline, outcome, ask)
