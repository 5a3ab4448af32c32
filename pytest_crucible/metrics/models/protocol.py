"""Scorer interfaces. A scorer's identity is part of each metric that uses it: values of two scorers are never compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np

Premise = Literal["abstract", "sentence"]
"""The premise of a hypothesis: the whole document, or each of its sentences, of which the strongest counts."""


@dataclass(frozen=True, slots=True)
class Entailment:
    """Probabilities of the relations between a premise and a hypothesis; they sum to 1."""

    entailment: float
    neutral: float
    contradiction: float
    truncated: bool = False
    """Whether the pair was longer than the model reads."""


@runtime_checkable
class EntailmentScorer(Protocol):
    """Returns for each pair (premise, hypothesis) the probability that the premise entails the hypothesis."""

    identity: str
    premise: Premise

    async def score(self, pairs: Sequence[tuple[str, str]]) -> Sequence[Entailment]: ...


@runtime_checkable
class SimilarityScorer(Protocol):
    """Measures how similar texts are, from their embeddings."""

    identity: str

    async def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors of shape (n, d), one row per text."""

    async def similarity(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Return the cosine of each pair, from -1 to 1."""
