"""The first request of a sample, found without sending it: the test function is called until it sends one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Outcome, Unit
from pytest_crucible.records.errors import BackendError, SpecError
from pytest_crucible.session.call import Call


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """The input of a request that was not sent, and its parameters."""

    input: Any
    parameters: Mapping[str, Any]


class _NotSentError(BackendError):
    """Ends the call of a test function whose first request is known."""


@dataclass
class _Recorder:
    """Takes the place of the edit of a version: records the first request, and sends none."""

    request: asyncio.Future[FirstRequest] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    draw: None = None

    def __call__(self, input: Any, parameters: Mapping[str, Any]) -> Any:
        if not self.request.done():
            self.request.set_result(FirstRequest(input, parameters))
        raise _NotSentError("the first request of an explained sample is not sent")


async def find_first_request(call: Call, unit: Unit) -> FirstRequest:
    """Return what the test function would send first. Raises SpecError where it sends nothing."""
    outcome, recorder = Outcome(unit, is_trial=True), _Recorder()
    task = asyncio.ensure_future(call.run(outcome, edit=recorder))
    await asyncio.wait((task, recorder.request), return_when=asyncio.FIRST_COMPLETED)
    if recorder.request.done():
        # A function that tries again would go on for long.
        task.cancel()
        await asyncio.wait((task,), timeout=1.0)
        if task.done() and not task.cancelled():
            task.exception()
        return recorder.request.result()
    await task
    sample = call.experiment.dataset.samples[unit.position].id
    if outcome.skipped:
        raise SpecError(f"{sample} is skipped by the test ({outcome.detail}), so there is nothing to explain")
    why = outcome.detail.splitlines()[0] if outcome.detail else "it returned without one"
    raise SpecError(f"{sample}: the test sent no request through its sampler ({why}), so there is nothing to leave out")
