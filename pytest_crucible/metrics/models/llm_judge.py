"""An LLM judge: a model queried about replies, through the wrappers of any adapter (cache, limits, budget, events)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pytest_crucible.metrics.models.attribution import current_reply
from pytest_crucible.records import JUDGE, ModelCall, Reply, Request
from pytest_crucible.records.errors import BackendError


class Judge:
    """An adapter that judges, or rewrites texts. Its usage is reported beside the arms, under its role: `judge:ADAPTER`."""

    def __init__(
        self,
        name: str,
        *,
        identity: str,
        generate: Callable[[Request], Awaitable[Reply]],
        parameters: Mapping[str, Any],
        simulated: bool = False,
        system: str = "",
        role: str = JUDGE,
    ) -> None:
        """`identity` is the backend's; with the parameters it is part of the version of each metric that uses this judge.

        `system` is the prompt that the backend sends before each message; `role` is one of `records.HELPERS`.
        """
        self.identity = f"{identity} {sorted(parameters.items())}"
        self.name = name
        self._is_unreported = simulated
        self._arm, self._role = f"{role}{name}", role.removesuffix(":")
        self._generate = generate
        self._parameters = parameters
        self._system = system

    def report(self) -> str | None:
        """Return once that the judge or paraphraser is simulated, if it is."""
        is_unreported, self._is_unreported = self._is_unreported, False
        work = "verdicts" if self._role == "judge" else "texts"
        return f"{self._role} {self.name!r} is simulated: no model stands behind its {work}" if is_unreported else None

    async def query(self, prompt: str) -> str:
        """Return the judge's reply without its reasoning. Raises BackendError if it is missing or truncated."""
        call = self._record(prompt)
        try:
            reply = call.reply = await self._generate(self._request(prompt))
        except BaseException as error:
            call.error = f"{type(error).__name__}: {error}".splitlines()[0]
            raise
        if reply.finish != "stop":
            raise BackendError(f"the {self._role}'s reply is incomplete ({reply.finish}): increase its max_tokens")
        return reply.answer

    def _request(self, prompt: str) -> Request:
        target = current_reply()
        return Request(
            input=prompt,
            sample=target.sample,
            repeat=target.repeat,
            parameters=self._parameters,
            experiment=target.experiment,
            arm=self._arm,
        )

    def _record(self, prompt: str) -> ModelCall:
        call = ModelCall(prompt, False, 1, None, self._system, judge=self._arm)
        calls = current_reply().calls
        if calls is not None:
            calls.append(call)
        return call
