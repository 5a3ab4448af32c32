"""Parts that all metrics of LLM judges share: their version depends on the configured judge, and each reply is judged once."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar
from typing import Any, TypeVar

from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.metrics.judges.verdicts import MARK, NoVerdict, read_verdict, wrap_in_tags
from pytest_crucible.metrics.models.llm_judge import Judge
from pytest_crucible.metrics.models.registry import NO_JUDGE, judge
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import BackendError

VERSION = "2"
NO_JUDGE_CONFIGURED = NotApplicable(NO_JUDGE)
Verdict = TypeVar("Verdict")
AskJudge = Callable[[Reply, Sample], Coroutine[Any, Any, Verdict]]


def judge_version(*question_parts: Any) -> Callable[[], str]:
    """Return a function for `depends`: the version by the question and the judge."""

    def version() -> str:
        configured = judge()
        words = hashlib.sha256(json.dumps(question_parts, sort_keys=True).encode()).hexdigest()[:16]
        return f"{VERSION}:{words}:{configured.identity if configured else 'no judge'}"

    return version


def judge_once(ask: AskJudge[Verdict]) -> AskJudge[Verdict]:
    """Return `ask` with a memory of a task's last reply, because a metric and its side values need one request."""
    last_call: ContextVar[tuple[Reply, Sample, asyncio.Task[Verdict]] | None]
    last_call = ContextVar("crucible_last_verdict", default=None)

    async def cached_ask(reply: Reply, sample: Sample) -> Verdict:
        latest = last_call.get()
        if latest is None or latest[0] is not reply or latest[1] is not sample:
            # A task, not a result: the metric and its side value await the same request.
            latest = (reply, sample, asyncio.ensure_future(ask(reply, sample)))
            last_call.set(latest)
        return await latest[2]

    return cached_ask


async def request_verdict(judge: Judge, prompt: str, names: Iterable[str]) -> str:
    """Return the judge's verdict. A reply without a readable one is followed by one request for the verdict alone.

    Raises BackendError, and NoVerdict if the second reply is not readable either.
    """
    levels = tuple(names)
    reply = await judge.query(prompt)
    try:
        return read_verdict(reply, levels)
    except NoVerdict:
        repeated = await judge.query(_repeat_prompt(prompt, reply, levels))
    try:
        return read_verdict(repeated, levels)
    except NoVerdict as error:
        raise NoVerdict(f"no readable verdict in two replies: {error}") from None


def _repeat_prompt(prompt: str, reply: str, names: Iterable[str]) -> str:
    """Return the second request: the first one, the judge's reply, and a request for the missing verdict."""
    missing = f"This is your reply. Its last line is not a verdict. Write only that line:\n{MARK} {' or '.join(names)}"
    return "\n\n".join((prompt, *wrap_in_tags([("your_reply", reply)]), missing))


async def side_value(
    verdict_for: AskJudge[Verdict], reply: Reply, sample: Sample, to_list: Callable[[Verdict], list[Any]]
) -> str | NotApplicable:
    """Return a value recorded along with a score, as JSON.

    Without a verdict the score is lost, which counts once: this value does not apply.
    """
    try:
        return json.dumps(to_list(await verdict_for(reply, sample)))
    except (BackendError, NoVerdict) as error:
        return NotApplicable(str(error))
