"""A judge: a model that is asked about replies, through the same stack as any adapter: kept, limited, paid for and told of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pytest_crucible.errors import BackendError
from pytest_crucible.records import Reply, Request, judge_arm
from pytest_crucible.scorers.asked import scored


class Judge:
    """One adapter that judges. What it took is told beside the arms, under the name `judge:ADAPTER`."""

    def __init__(
        self,
        name: str,
        *,
        identity: str,
        generate: Callable[[Request], Awaitable[Reply]],
        parameters: Mapping[str, Any],
        simulated: bool = False,
    ) -> None:
        """`identity` is the backend's; with the parameters it is part of every metric that asks this judge."""
        self.identity = f"{identity} {sorted(parameters.items())}"
        self.name = name
        self._untold = simulated
        self._arm = judge_arm(name)
        self._generate = generate
        self._parameters = parameters

    def told(self) -> str | None:
        """That no model stands behind it, where that is so; said once."""
        untold, self._untold = self._untold, False
        return f"judge {self.name!r} is simulated: no model stands behind its verdicts" if untold else None

    async def ask(self, prompt: str) -> str:
        """What it says. Raises BackendError where it says nothing, or is cut short before its verdict."""
        where = scored()
        reply = await self._generate(
            Request(
                input=prompt,
                sample=where.sample,
                epoch=where.epoch,
                parameters=self._parameters,
                experiment=where.experiment,
                arm=self._arm,
            )
        )
        if reply.finish != "stop":
            raise BackendError(f"the judge did not finish its reply ({reply.finish}): allow it more max_tokens")
        return reply.text
