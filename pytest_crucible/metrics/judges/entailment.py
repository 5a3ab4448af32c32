"""Entailment by an LLM judge: its verdict gets probability 1, because it reports no other."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from pytest_crucible.metrics.judges.prompting import request_verdict
from pytest_crucible.metrics.judges.verdicts import DATA, closing_lines, wrap_in_tags
from pytest_crucible.metrics.models.protocol import Entailment, Premise
from pytest_crucible.metrics.models.registry import NO_JUDGE, judge
from pytest_crucible.records.errors import SpecError

NAMES = ("entailment", "neutral", "contradiction")
TASK = (
    "Say what the premise says of the hypothesis: entailment when a careful reader of the premise alone concludes that the "
    "hypothesis is true, contradiction when they conclude that it is false, and neutral otherwise."
)


class JudgeEntailment:
    """Queries the configured judge about each pair."""

    def __init__(self, premise: Premise = "abstract") -> None:
        """Raises SpecError if no judge is configured."""
        configured = judge()
        if configured is None:
            raise SpecError(NO_JUDGE)
        self._judge = configured
        self.premise = premise
        prompt_hash = hashlib.sha256(_prompt("", "").encode()).hexdigest()[:12]
        self.identity = f"judge:{prompt_hash}:{configured.identity}:{premise}"

    async def score(self, pairs: Sequence[tuple[str, str]]) -> list[Entailment]:
        """Score pairs of premise and hypothesis. Raises BackendError and NoVerdict."""
        return list(await asyncio.gather(*(self._score_pair(*pair) for pair in pairs)))

    async def _score_pair(self, premise: str, hypothesis: str) -> Entailment:
        verdict = await request_verdict(self._judge, _prompt(premise, hypothesis), NAMES)
        entails, neutral, contradicts = (float(name == verdict) for name in NAMES)
        return Entailment(entails, neutral, contradicts)


def _prompt(premise: str, hypothesis: str) -> str:
    parts = wrap_in_tags((("premise", premise), ("hypothesis", hypothesis)))
    return "\n\n".join((TASK, DATA, *parts, closing_lines(NAMES)))
