"""Strategies for querying the members of an ensemble: all at once, one after the other, or as a race."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pytest_crucible.backends.ensembles.ballots import Ballot, confidence
from pytest_crucible.backends.ensembles.polling import Poll
from pytest_crucible.backends.ensembles.votes import require_confidence

Enough = Callable[[Poll], bool]
"""Return whether the answers so far are enough."""
QueryTask = asyncio.Task[Ballot | None]


async def parallel(poll: Poll) -> None:
    """Query all members at once and wait for all."""
    try:
        async with asyncio.TaskGroup() as group:
            for position in poll.order:
                group.create_task(poll.query(position))
    except BaseExceptionGroup as several:
        # A TaskGroup wraps errors; the first one is what stops the experiment.
        raise several.exceptions[0] from None
    # In parallel the slowest answer determines the time, in sequence their sum.
    poll.latency_s = max(poll.spent_s.values(), default=0.0)


async def sequential(poll: Poll, *, enough: Enough) -> None:
    """Query one member after the other until their answers are enough."""
    for number, position in enumerate(poll.order, start=1):
        await poll.query(position)
        if number < len(poll.order) and enough(poll):
            poll.early = True
            break
    poll.latency_s = sum(poll.spent_s.values())


async def cascade(poll: Poll, *, threshold: float, min_responses: int) -> None:
    """Query one member after the other until one is confident enough; its answer counts.

    The last member need not report its confidence: its answer counts if no other does.
    """

    def is_sure(poll: Poll) -> bool:
        if len(poll.answered) >= min_responses:
            poll.decided = next((ballot for ballot in poll.cast if require_confidence(ballot) >= threshold), None)
        return poll.decided is not None

    await sequential(poll, enough=is_sure)
    if poll.decided is None:
        poll.decided = next((ballot for ballot in poll.cast if (confidence(ballot.reply) or 0.0) >= threshold), None)


async def race(poll: Poll, *, delay_s: float) -> None:
    """Query the first member; after the delay, or without an answer from it, all others too. The first answer counts.

    The remaining requests are cancelled.
    """
    loop = asyncio.get_running_loop()
    first, *others = poll.order
    racing = {loop.create_task(poll.query(first))}
    starts = {first: loop.time()}
    try:
        poll.decided = await _winner(racing, poll, timeout_s=delay_s)
        if poll.decided is None:
            racing |= {loop.create_task(poll.query(position)) for position in others}
            starts |= dict.fromkeys(others, loop.time())
            poll.decided = await _winner(racing, poll, timeout_s=None)
    finally:
        poll.early = len(poll.queried) < len(poll.order) or any(not task.done() for task in racing)
        await _cancel(racing)
    # Times since the poll began, including the delay before a late starter.
    finished = {position: starts[position] - poll.began + seconds for position, seconds in poll.spent_s.items()}
    counted = [seconds for position, seconds in finished.items() if poll.decided in (None, poll.answered.get(position))]
    poll.latency_s = max(counted, default=0.0)


async def _winner(racing: Iterable[QueryTask], poll: Poll, *, timeout_s: float | None) -> Ballot | None:
    """Return the first answer in time; of two that come together, that of the member queried first."""
    pending: set[QueryTask] = {task for task in racing if not task.done()}
    while pending:
        done, pending = await asyncio.wait(pending, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()  # raises an error that stops the experiment
        if poll.cast or not done:
            break
    return next(iter(poll.cast), None)


async def _cancel(tasks: Iterable[QueryTask]) -> None:
    """Cancel running tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
