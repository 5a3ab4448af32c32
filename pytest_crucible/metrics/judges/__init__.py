"""Metrics by an LLM judge, the model of `[scorers]`: by a rubric of named levels, or by preference over another answer.

helpful = judges.rubric("helpful", "How helpful is the answer?", levels={"useless": 0, "fair": 0.5, "good": 1})
better = judges.pairwise("better", "Which answer is more helpful?")

@pytest.mark.crucible(dataset="questions.jsonl", metrics=[helpful, better])
"""

from pytest_crucible.metrics.judges.pairwise import pairwise
from pytest_crucible.metrics.judges.rubric import rubric
from pytest_crucible.metrics.judges.verdicts import NoVerdict

__all__ = ["NoVerdict", "pairwise", "rubric"]
