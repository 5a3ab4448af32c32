"""What a scorer is. Its identity is part of every metric that uses it: values of two scorers are never compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np

Premise = Literal["abstract", "sentence"]
"""What a hypothesis is held against: a document as a whole, or each of its sentences, of which the strongest counts."""


@dataclass(frozen=True, slots=True)
class Entailment:
    """Probabilities of what a premise says of a hypothesis; they sum to 1."""

    entailment: float
    neutral: float
    contradiction: float
    truncated: bool = False
    """The pair was longer than the model reads."""


@runtime_checkable
class EntailmentScorer(Protocol):
    """Says of each pair (premise, hypothesis) how probable it is that the premise entails the hypothesis."""

    identity: str
    premise: Premise

    async def score(self, pairs: Sequence[tuple[str, str]]) -> Sequence[Entailment]: ...


@runtime_checkable
class SimilarityScorer(Protocol):
    """Says how alike two texts are, from their embeddings."""

    identity: str

    async def embed(self, texts: Sequence[str]) -> np.ndarray:
        """(n, d), a row a text."""

    async def similarity(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """The cosine of each pair, from -1 to 1."""
