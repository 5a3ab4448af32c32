"""Models that score replies: entailment between texts, similarity of texts, and LLM judges."""

from pytest_crucible.metrics.models.scorers import Entailment, EntailmentScorer, SimilarityScorer

__all__ = ["Entailment", "EntailmentScorer", "SimilarityScorer"]
