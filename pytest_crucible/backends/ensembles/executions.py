"""How the members of an ensemble are asked: all at once, one after the other, or as a race."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pytest_crucible.backends.ensembles.ballots import Ballot, confidence
from pytest_crucible.backends.ensembles.polling import Poll
from pytest_crucible.backends.ensembles.votes import known_confidence

Enough = Callable[[Poll], bool]
"""Is what has been answered enough to stop asking?"""
Asking = asyncio.Task[Ballot | None]


async def parallel(poll: Poll) -> None:
    """All at once, and all are waited for."""
    try:
        async with asyncio.TaskGroup() as group:
            for position in poll.order:
                group.create_task(poll.ask(position))
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    poll.latency_s = max(poll.spent_s.values(), default=0.0)


async def sequential(poll: Poll, *, enough: Enough) -> None:
    """One after the other, until what they answered is enough."""
    for number, position in enumerate(poll.order, start=1):
        await poll.ask(position)
        if number < len(poll.order) and enough(poll):
            poll.early = True
            break
    poll.latency_s = sum(poll.spent_s.values())


async def cascade(poll: Poll, *, threshold: float, min_responses: int) -> None:
    """One after the other, until one is so confident; its answer counts. The last one need not say how sure it is."""

    def is_sure(poll: Poll) -> bool:
        if len(poll.answered) >= min_responses:
            poll.decided = next((one for one in poll.cast if known_confidence(one) >= threshold), None)
        return poll.decided is not None

    await sequential(poll, enough=is_sure)
    if poll.decided is None:
        poll.decided = next((one for one in poll.cast if (confidence(one.reply) or 0.0) >= threshold), None)


async def hedged(poll: Poll, *, delay_s: float) -> None:
    """The first one; after the delay, or when it gives no answer, all others too. The first answer counts.

    Those who are still asked then are cancelled.
    """
    loop = asyncio.get_running_loop()
    first, *others = poll.order
    racing = {loop.create_task(poll.ask(first))}
    starts = {first: loop.time()}
    try:
        poll.decided = await _winner(racing, poll, timeout_s=delay_s)
        if poll.decided is None:
            racing |= {loop.create_task(poll.ask(position)) for position in others}
            starts |= dict.fromkeys(others, loop.time())
            poll.decided = await _winner(racing, poll, timeout_s=None)
    finally:
        poll.early = len(poll.asked) < len(poll.order) or any(not task.done() for task in racing)
        await _cancelled(racing)
    finished = {position: starts[position] - poll.began + taken for position, taken in poll.spent_s.items()}
    counted = [taken for position, taken in finished.items() if poll.decided in (None, poll.answered.get(position))]
    poll.latency_s = max(counted, default=0.0)


async def _winner(racing: Iterable[Asking], poll: Poll, *, timeout_s: float | None) -> Ballot | None:
    """The first answer that comes in time; of two that come together, the one that was asked first."""
    pending: set[Asking] = {task for task in racing if not task.done()}
    while pending:
        done, pending = await asyncio.wait(pending, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()  # raises what stops everything
        if poll.cast or not done:
            break
    return next(iter(poll.cast), None)


async def _cancelled(tasks: Iterable[Asking]) -> None:
    """End those that still run, and wait until they have."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
