"""What a scorer is. Its identity is part of every metric that uses it: values of two scorers are never compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np


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

    def score(self, pairs: Sequence[tuple[str, str]]) -> Sequence[Entailment]: ...


@runtime_checkable
class SimilarityScorer(Protocol):
    """Says how alike two texts are, from their embeddings."""

    identity: str

    def embed(self, texts: Sequence[str]) -> np.ndarray: ...

    def similarity(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]: ...
