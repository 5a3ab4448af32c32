"""Entailment by a judge: what it says of a pair has probability 1, since it gives no other."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from pytest_crucible.errors import SpecError
from pytest_crucible.judges.verdicts import DATA, closing, tagged, verdict_of
from pytest_crucible.scorers.configured import NO_JUDGE, judge
from pytest_crucible.scorers.protocol import Entailment, Premise

NAMES = ("entailment", "neutral", "contradiction")
TASK = (
    "Say what the premise says of the hypothesis: entailment when a careful reader of the premise alone concludes that the "
    "hypothesis is true, contradiction when he concludes that it is false, and neutral otherwise."
)


class JudgedEntailment:
    """Asks the configured judge about each pair."""

    def __init__(self, premise: Premise = "abstract") -> None:
        """Raises SpecError where there is no judge."""
        found = judge()
        if found is None:
            raise SpecError(NO_JUDGE)
        self._judge = found
        self.premise = premise
        asked = hashlib.sha256(_prompt("", "").encode()).hexdigest()[:12]
        self.identity = f"judge:{asked}:{found.identity}:{premise}"

    async def score(self, pairs: Sequence[tuple[str, str]]) -> list[Entailment]:
        """Raises BackendError and NoVerdict."""
        return list(await asyncio.gather(*(self._one(*pair) for pair in pairs)))

    async def _one(self, premise: str, hypothesis: str) -> Entailment:
        said = verdict_of(await self._judge.ask(_prompt(premise, hypothesis)), NAMES)
        entails, neutral, contradicts = (float(name == said) for name in NAMES)
        return Entailment(entails, neutral, contradicts)


def _prompt(premise: str, hypothesis: str) -> str:
    parts = (TASK, DATA, tagged("premise", premise), tagged("hypothesis", hypothesis), closing(NAMES))
    return "\n\n".join(parts)
