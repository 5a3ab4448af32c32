"""The calls of one unit over the endpoint: who may send, what is counted, and what the unit loses by a failed one."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Collection, Coroutine, MutableMapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar

from pytest_crucible.features.agents.dialects.kept_responses import KeptResponses
from pytest_crucible.features.agents.tables import endpoint_calls
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import JUDGE, Arm, ModelCall, Outcome, Reply
from pytest_crucible.records.errors import BackendError, Refused
from pytest_crucible.sample.invoke import lost_reason
from pytest_crucible.session.experiment import BoundUnit
from pytest_crucible.stats.number_format import quantity

T = TypeVar("T")


class Ended(Exception):
    """Raised with the reason why a unit answers no further request."""


@dataclass(eq=False)
class UnitCalls:
    """The calls of one unit. All methods but `enter` run on the sampling loop."""

    bound: BoundUnit
    most: int | None
    """The largest number of calls; None for any number."""
    seats: MutableMapping[str, Any]
    """Those of all units, by token."""
    tokens: list[str] = field(default_factory=list)
    """Are in the addresses of the unit's requests, and valid while the function runs."""
    responses: KeptResponses = field(default_factory=KeptResponses)
    number: int = 0
    of_arm: int = 0
    """The number of calls that were not to a role."""
    error: BackendError | None = None
    """The reply that was lost: no further one can save the unit."""
    is_over: bool = False
    """Whether more calls were sent than allowed."""
    is_closed: bool = False
    """Whether the unit has ended: what was in flight then was cancelled."""
    _context: contextvars.Context | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    def enter(self) -> None:
        """Remember the context of the function: its deadline, and the reply to which requests belong."""
        self._context = contextvars.copy_context()

    def blames_arm(self) -> bool:
        """Return whether an exception is the arm's failure: after the first call, what the model said has led the agent there."""
        return self.number > 0

    def begin(self, arm: Arm, role: str) -> int:
        """Count a call, and return its number. Raises Ended for one that is not answered, and Refused for a recorded arm."""
        if self.error is not None:
            raise Ended(f"an earlier call of this sample has no reply: {self.error}")
        if self.most is not None and self.number >= self.most:
            self.is_over = True
            raise Ended(f"this sample has sent {quantity(self.most, 'call')}, as many as max_calls={self.most} allows")
        if arm.recorded and self.of_arm:
            self.error = Refused(
                f"endpoint: the arm {arm.name} is recorded and has no reply to call {self.of_arm + 1} of sample "
                f"{self.bound.sample.id:.200}; use an adapter that calls a model"
            )
            raise self.error
        self.number += 1
        self.of_arm += not role
        return self.number

    def context(self) -> contextvars.Context | None:
        """Return a context for a request: a copy of the function's."""
        return self._context.copy() if self._context else None

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a request in the context of the function, until the unit ends."""
        return self.bound.loop.loop.create_task(work, context=self.context())

    async def send(self, call: Callable[[], Coroutine[Any, Any, Reply]], facts: dict[str, Any]) -> Reply:
        """Await the reply of the arm or of a role, and record the call. Raises BackendError: the unit is lost.

        The end of the unit cancels the task that awaits this.
        """
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        begun, is_parallel = time.time(), len(self._tasks) > 1
        try:
            return await call()
        except BackendError as error:
            self.error = self.error or error
            raise
        except Exception as error:
            # Of a backend that is broken, such as a script: without an answer the client would wait for ever.
            self.error = self.error or BackendError(f"{type(error).__name__}: {error}")
            raise self.error from error
        finally:
            self._tasks.discard(task)
            row = {**facts, "is_parallel": is_parallel, "begun": begun, "ended": time.time()}
            self.bound.outcome.feature_rows.setdefault(endpoint_calls.name, []).append(row)

    async def close(self) -> None:
        """Cancel what is in flight, and let the outcome say what the function may have hidden. Raises Refused."""
        self.is_closed = True
        for token in self.tokens:
            del self.seats[token]
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=1)
        judge_outcome(self.bound.outcome, self.error, self.most if self.is_over else None)
        if self.bound.outcome.failure:
            score_spent(self.bound.outcome, {metric.name for metric in self.bound.experiment.metrics})


def judge_outcome(outcome: Outcome, error: BackendError | None, most: int | None) -> None:
    """Set what became of a unit, whatever its function made of it. Raises Refused.

    A lost reply loses the unit. More calls than `most` are a failure of the arm. A function that returns nothing has the arm's last
    reply.
    """
    if isinstance(error, Refused):
        raise error
    if error is not None:
        outcome.reply, outcome.failure, outcome.skipped = None, None, False
        outcome.lost, outcome.detail = lost_reason(error), str(error)
    elif outcome.failure == "timeout":
        return
    elif most is not None:
        outcome.lost, outcome.failure, outcome.skipped = None, "assertion", False
        outcome.detail = f"the agent had not ended after {quantity(most, 'call')} (max_calls)"
    elif outcome.reply is None and not (outcome.lost or outcome.failure or outcome.skipped):
        replies = [call.reply for call in outcome.calls if call.reply is not None and not call.judge]
        outcome.reply = replies[-1] if replies else None
    if outcome.reply is not None:
        outcome.reply = with_totals(outcome.reply, outcome.calls)


def score_spent(outcome: Outcome, metrics: Collection[str]) -> None:
    """Score what an agent that failed has spent, for those metrics: most of it is known, and unknown is lost."""
    spent = with_totals(Reply(text=""), outcome.calls)
    numbers: dict[str, float | None] = {name: getattr(spent, name) for name in _SPENT}
    if spent.input_tokens is not None and spent.output_tokens is not None:
        numbers |= dict.fromkeys(("total_tokens", "tokens"), spent.input_tokens + spent.output_tokens)
    outcome.scores.update({name: value for name, value in numbers.items() if name in metrics and value is not None})


_SPENT = ("input_tokens", "output_tokens", "cost_usd")


def with_totals(reply: Reply, calls: Sequence[ModelCall]) -> Reply:
    """Return an agent's reply with the tokens and the cost of all of its calls, without judges of guards.

    They are unknown if those of one call are not known, as of one that was cut off.
    """
    replies = [call.reply for call in calls if not call.judge.startswith(JUDGE)]

    def total(name: str) -> Any:
        amounts = [None if each is None else getattr(each, name) for each in replies]
        return None if None in amounts or not amounts else sum(amounts)

    return replace(reply, **{name: total(name) for name in _SPENT})
