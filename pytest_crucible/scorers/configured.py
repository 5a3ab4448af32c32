"""The scorers of this process: set once, when a session has read its configuration, and found by the metrics that need them."""

from __future__ import annotations

from pytest_crucible.scorers.protocol import EntailmentScorer, SimilarityScorer

_entailment: EntailmentScorer | None = None
_similarity: SimilarityScorer | None = None
NO_ENTAILMENT = (
    'no entailment scorer is configured: pip install "pytest-crucible[nli]", '
    'and set entailment = "PATH" in [scorers] of crucible.toml'
)
NO_SIMILARITY = 'no similarity scorer is configured: set similarity = "minilm" or "tfidf" in [scorers]'


def configure(*, entailment: EntailmentScorer | None = None, similarity: SimilarityScorer | None = None) -> None:
    """Set both; None takes one away."""
    global _entailment, _similarity
    _entailment, _similarity = entailment, similarity


def entailment_scorer() -> EntailmentScorer | None:
    return _entailment


def similarity_scorer() -> SimilarityScorer | None:
    return _similarity
