"""Runs the units of an experiment concurrently, up to a limit and a deadline, and keeps every outcome.

Workers pull units from one lazy iterator, so that memory does not grow with the number of samples.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import field

from pytest_crucible.backends.deadlines import SampleSlot, set_slot
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import CUT_SHORT, Outcome, Unit
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.outcomes import copy_rows

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
        return Outcome(
            outcome.unit,
            lost="deadline",
            detail=detail,
            calls=list(outcome.calls),
            sample=outcome.sample,
            feature_rows=copy_rows(outcome.feature_rows),
        )


async def cut_off_by(deadline: Deadline | None, outcome: Outcome, work: Work) -> Outcome:
    """Finish a unit under the deadline. Work that never waits is finished even after it."""
    if deadline is None:
        return await work(outcome)
    try:
        async with asyncio.timeout_at(deadline.at):
            return await work(outcome)
    except TimeoutError:
        return deadline.lose(outcome)


async def ask_before(deadline: Deadline | None, outcome: Outcome, ask: Work) -> Outcome:
    """Run one unit, unless the deadline has passed."""
    has_passed = deadline is not None and deadline.has_passed()
    return deadline.lose(outcome) if deadline and has_passed else await cut_off_by(deadline, outcome, ask)


# Open units, waiting ones with them, for each that may run: refused requests of a server that asks for a pause of a second must not
# keep others from being sent, and each costs some kilobytes.
MOST_OPEN = 5


class WorkerSlots:
    """Gives a slot that a waiting unit releases to one that has waited, or else to a new worker."""

    def __init__(self, start: Callable[[], None], most_workers: int) -> None:
        self._start = start
        self._most_workers = most_workers
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._free = 0
        self._has_units = True
        self._workers = 0

    def start_worker(self) -> None:
        self._workers += 1
        self._start()

    def end_worker(self) -> None:
        """Record that a worker has found no more units, and release its slot."""
        self._has_units = False
        self._workers -= 1
        self.release()

    def end_without_slot(self) -> None:
        """Record that a worker has ended whose slot has gone to another one."""
        self._workers -= 1
        if self._free:
            self._free -= 1
            self.release()

    def hand_over(self) -> bool:
        """Give the caller's slot to a unit that has waited; return whether there is one."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return True
        return False

    def release(self) -> None:
        if self.hand_over():
            return
        if self._has_units and self._workers < self._most_workers:
            self.start_worker()
        else:
            self._free += 1

    async def acquire(self) -> None:
        if self._free:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # The slot came in the same moment.
            if waiter.done() and not waiter.cancelled():
                self.release()
            raise


# A backend that never waits would keep the loop from handling Ctrl-C; more often would cost time for nothing.
YIELD_EVERY_S = 0.05
# An arm that lost this many samples and answered none is broken, not unlucky.
ALL_LOST_AFTER = 20
# Seconds between two checks whether the store has caught up.
PAUSE_S = 0.02


class AllLost(CrucibleError):
    """An arm that lost every sample so far: going on would cost time and give no result."""


@dataclass(slots=True)
class Progress:
    """Counters that the sampling thread writes and the main thread reads."""

    total: int
    done: int = 0
    lost: int = 0
    is_cut_short: bool = False
    """Whether a budget or the run's deadline lost a unit."""
    first_reply: float = 0.0
    last_reply: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    def count(self, outcome: Outcome) -> None:
        self.last_reply = time.perf_counter()
        self.first_reply = self.first_reply or self.last_reply
        self.done += 1
        self.lost += outcome.lost is not None
        self.is_cut_short |= outcome.lost in CUT_SHORT


@dataclass(slots=True)
class Watch:
    """Detects an arm that loses every sample."""

    names: tuple[str, ...]
    planned: list[int]
    answered: list[bool]
    lost: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.lost = [0] * len(self.names)

    def see(self, outcome: Outcome) -> None:
        """Raise AllLost if the outcome's arm has lost each of its first samples."""
        arm = outcome.unit.arm
        if not outcome.lost and outcome.failure != "timeout":
            self.answered[arm] = True
            return
        # No model was called.
        if outcome.lost in CUT_SHORT or outcome.lost == "uncached":
            return
        self.lost[arm] += 1
        if not self.answered[arm] and self.lost[arm] >= min(ALL_LOST_AFTER, self.planned[arm]):
            raise AllLost(
                f"adapter {self.names[arm]!r} lost each of its first {self.lost[arm]} samples "
                f"({(outcome.detail or 'timeout').splitlines()[0]}): the experiment was stopped"
            )


async def run_units(
    units: Iterator[Unit | None],
    ask: Callable[[Unit], Awaitable[Outcome]],
    keep: Callable[[Outcome], None],
    *,
    concurrency: int,
    arms: tuple[str, ...],
    planned: list[int],
    progress: Progress,
    answered: Sequence[bool] = (),
    behind: Callable[[], bool] = lambda: False,
    wait: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(PAUSE_S),
) -> None:
    """Run all units, at most `concurrency` at a time, and keep each outcome as it comes.

    A unit whose request waits to be sent again lets another one start in its place; at most MOST_OPEN times as many are open.
    `planned` counts the units of each arm that are left; `answered` marks the arms that have stored replies of an earlier
    run. While `behind()`, no unit is started: a model can be faster than a disk. For None among the units, `wait` is awaited,
    because further ones are to come. Raises AllLost, and any error of `ask` and `keep`. Then, and when it is cancelled itself,
    it cancels the units in flight.
    """
    yielded_at = 0.0
    watch = Watch(arms, planned, list(answered) or [False] * len(arms))

    async def worker() -> None:
        nonlocal yielded_at
        # One iterator for all workers: each unit is pulled once.
        for unit in units:
            if unit is None:
                await wait()
                continue
            slot = SampleSlot(slots)
            set_slot(slot)
            outcome = await ask(unit)
            progress.count(outcome)
            keep(outcome)
            watch.see(outcome)
            # A sample that has waited goes on before a new one starts.
            if not slot.end() or slots.hand_over():
                slots.end_without_slot()
                return
            if time.perf_counter() - yielded_at >= YIELD_EVERY_S:
                # Until the loop has run, this is due for every worker at once, not for each in turn.
                before = yielded_at
                await asyncio.sleep(0)
                if yielded_at == before:
                    yielded_at = time.perf_counter()
            while behind():
                await asyncio.sleep(PAUSE_S)
        slots.end_worker()

    def start_worker() -> None:
        # A context of its own: the caller's belongs to the sample that waits.
        group.create_task(worker(), context=context.copy())

    context, slots = contextvars.copy_context(), WorkerSlots(start_worker, MOST_OPEN * concurrency)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, sum(planned))):
                slots.start_worker()
                # The first workers send their request before the last connect, so that replies do not all arrive at once.
                await asyncio.sleep(0)
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
