"""Every sample x arm of an experiment, concurrently and bounded, and nothing that finished is ever dropped.

A fixed number of workers pull units from one lazy iterator, so that memory does not grow with the number of samples.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pytest_crucible.errors import CrucibleError
from pytest_crucible.records import CUT_SHORT, Outcome

Unit = tuple[int, int, int]
"""(position, arm, epoch)"""
BREATH_S = 0.05
ALL_LOST_AFTER = 20
"""An arm that lost this many samples and answered none is broken, not unlucky."""
PAUSE_S = 0.02
"""How long to wait before looking again whether the store has caught up."""


class AllLost(CrucibleError):
    """An arm that answers nothing: going on would spend time and give a table of unknowns."""


@dataclass(slots=True)
class Progress:
    """Counters that the sampling thread writes and the main thread reads."""

    total: int
    done: int = 0
    lost: int = 0
    is_cut_short: bool = False
    """Whether something was lost because nothing more may be asked."""
    first_reply: float = 0.0
    last_reply: float = 0.0
    started: float = field(default_factory=time.perf_counter)


@dataclass(slots=True)
class _Watch:
    """Notices an arm of which every sample is lost."""

    names: tuple[str, ...]
    planned: list[int]
    lost: list[int]
    answered: list[bool]

    def see(self, outcome: Outcome) -> None:
        arm = outcome.arm
        if not outcome.lost and outcome.failure != "timeout":
            self.answered[arm] = True
            return
        if outcome.lost in CUT_SHORT or outcome.lost == "uncached":  # nobody was asked
            return
        self.lost[arm] += 1
        if not self.answered[arm] and self.lost[arm] >= min(ALL_LOST_AFTER, self.planned[arm]):
            raise AllLost(
                f"adapter {self.names[arm]!r} lost each of its first {self.lost[arm]} samples "
                f"({(outcome.detail or 'timeout').splitlines()[0]}): nothing more was asked"
            )


@dataclass(slots=True)
class _Breath:
    """Due now and then: a backend that never waits must not keep the loop from hearing that it is to stop."""

    last: float = 0.0

    def due(self) -> bool:
        return time.perf_counter() - self.last >= BREATH_S

    async def take(self) -> None:
        """Let the loop go round. Until it has, a breath is due for every worker: not each of them in turn."""
        seen = self.last
        await asyncio.sleep(0)
        if self.last == seen:
            self.last = time.perf_counter()


async def run_units(
    units: Iterator[Unit],
    ask: Callable[[Unit], Awaitable[Outcome]],
    keep: Callable[[Outcome], None],
    *,
    concurrency: int,
    arms: tuple[str, ...],
    planned: list[int],
    progress: Progress,
    answered: Sequence[bool] = (),
    behind: Callable[[], bool] = lambda: False,
) -> None:
    """Ask all units, at most `concurrency` at a time, and keep each outcome as it comes.

    `planned` counts the units of each arm that are left to ask; `answered` says which arms have answered before, in an
    earlier run. While `behind()`, nothing more is asked: a model can be faster than a disk. Raises AllLost, or whatever
    `ask` and `keep` raise; then the units in flight are cancelled. Cancellation does the same.
    """
    breath = _Breath()
    watch = _Watch(arms, planned, [0] * len(arms), list(answered) or [False] * len(arms))

    async def worker() -> None:
        for unit in units:  # one iterator for all workers: each unit is pulled once
            outcome = await ask(unit)
            _count(progress, outcome)
            keep(outcome)
            watch.see(outcome)
            if breath.due():
                await breath.take()
            while behind():
                await asyncio.sleep(PAUSE_S)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, sum(planned))):
                group.create_task(worker())
                # The first have asked before the last connect, and their answers do not all come at one time.
                await asyncio.sleep(0)
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None


def _count(progress: Progress, outcome: Outcome) -> None:
    progress.last_reply = time.perf_counter()
    progress.first_reply = progress.first_reply or progress.last_reply
    progress.done += 1
    progress.lost += outcome.lost is not None
    progress.is_cut_short |= outcome.lost in CUT_SHORT
