"""What all judged metrics share: whom they ask is known when a session plans, and each reply is judged once."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

from pytest_crucible.errors import BackendError
from pytest_crucible.judges.verdicts import NoVerdict
from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.records import Reply, Sample
from pytest_crucible.scorers.configured import NO_JUDGE, judge

VERSION = "1"
NOBODY = NotApplicable(NO_JUDGE)
Said = TypeVar("Said")
Ask = Callable[[Reply, Sample], Coroutine[Any, Any, Said]]


def version_of(*asked: Any) -> Callable[[], str]:
    """What a metric's scores depend on: what is asked, and of whom."""

    def version() -> str:
        known = judge()
        words = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
        return f"{VERSION}:{words}:{known.identity if known else 'no judge'}"

    return version


def said_once(ask: Ask[Said]) -> Ask[Said]:
    """The same, which remembers the last reply of a task: a metric, and what is told beside it, are one question."""
    last: ContextVar[tuple[Reply, Sample, asyncio.Task[Said]] | None]
    last = ContextVar("crucible_last_verdict", default=None)

    async def said(reply: Reply, sample: Sample) -> Said:
        known = last.get()
        if known is None or known[0] is not reply or known[1] is not sample:
            known = (reply, sample, asyncio.ensure_future(ask(reply, sample)))
            last.set(known)
        return await known[2]

    return said


async def beside(
    once: Ask[Said], reply: Reply, sample: Sample, told: Callable[[Said], list[Any]]
) -> str | NotApplicable:
    """What is told along with a score, as JSON. Where the judge gave no verdict the score is lost, once: this does not apply."""
    try:
        return json.dumps(told(await once(reply, sample)))
    except (BackendError, NoVerdict) as error:
        return NotApplicable(str(error))
