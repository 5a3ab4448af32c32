"""Models that score what another model said: does a text entail another, and how alike are two?"""

from pytest_crucible.scorers.protocol import Entailment, EntailmentScorer, SimilarityScorer

__all__ = ["Entailment", "EntailmentScorer", "SimilarityScorer"]
