"""Entailment by the judge: its verdict on a premise and a hypothesis, or that of several votes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from pytest_crucible.metrics.models.scorers import (
    DATA,
    NO_JUDGE,
    Entailment,
    Premise,
    closing_lines,
    judge,
    wrap_in_tags,
)
from pytest_crucible.metrics.models.votes import Combine, combined_value, request_votes
from pytest_crucible.records.errors import SpecError

RELATIONS = ("entailment", "neutral", "contradiction")
ENTAILMENT_TASK = (
    "Say what the premise says of the hypothesis: entailment when a careful reader of the premise alone concludes that the "
    "hypothesis is true, contradiction when they conclude that it is false, and neutral otherwise."
)


class JudgeEntailment:
    """Queries the configured judge about each pair."""

    def __init__(self, premise: Premise = "abstract", votes: int = 1, combine: Combine = "majority") -> None:
        """Raises SpecError if no judge is configured.

        With several `votes` each relation has the share of the verdicts that most votes are, all of one or equal shares of
        those that tie; with combine="mean" the share of all votes.
        """
        configured = judge()
        if configured is None:
            raise SpecError(NO_JUDGE)
        self._judge, self._votes, self._combine = configured, votes, combine
        self.premise = premise
        prompt_hash = hashlib.sha256(_entailment_prompt("", "").encode()).hexdigest()[:12]
        self.identity = f"judge:{prompt_hash}:{configured.identity}:{premise}"
        if votes > 1:
            self.identity += f":{votes} votes, {combine}"

    async def score(self, pairs: Sequence[tuple[str, str]]) -> list[Entailment]:
        """Score pairs of premise and hypothesis. Raises BackendError and NoVerdict."""
        return list(await asyncio.gather(*(self._score_pair(*pair) for pair in pairs)))

    async def _score_pair(self, premise: str, hypothesis: str) -> Entailment:
        votes = await request_votes(self._judge, _entailment_prompt(premise, hypothesis), RELATIONS, self._votes)
        entails, neutral, contradicts = (
            combined_value(votes, {name: float(name == relation) for name in RELATIONS}, self._combine)
            for relation in RELATIONS
        )
        return Entailment(entails, neutral, contradicts)


def _entailment_prompt(premise: str, hypothesis: str) -> str:
    parts = wrap_in_tags((("premise", premise), ("hypothesis", hypothesis)))
    return "\n\n".join((ENTAILMENT_TASK, DATA, *parts, closing_lines(RELATIONS)))
