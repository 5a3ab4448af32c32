"""The values of one judged reply that conditions of rules can speak of."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_crucible.cns3.antagonist import DEFAULT_RULES, Finding, Rule, findings
from pytest_crucible.cns3.chirality import Chirality
from pytest_crucible.cns3.graph import beta1
from pytest_crucible.cns3.judgement import Judgement
from pytest_crucible.metrics.definition import NotApplicable

_rules: tuple[Rule, ...] = DEFAULT_RULES


def use_rules(rules: tuple[Rule, ...]) -> None:
    """The rules of this process, once a session has read its configuration."""
    global _rules
    _rules = rules


def rules() -> tuple[Rule, ...]:
    return _rules


def values_of(judgement: Judgement) -> Mapping[str, float]:
    """Only what applies and was measured."""
    citations, extraction = judgement.citations, judgement.extraction
    given = {
        "citation_accuracy": judgement.citation_accuracy,
        "citation_precision": citations.precision,
        "citation_recall": citations.recall,
        "citation_exists": citations.exists,
        "entailment": judgement.entailment,
        "entailment_overlap": judgement.entailment_overlap,
        "similarity": judgement.similarity,
        "chirality": _number(judgement.chirality),
        "polarity_conflict": judgement.conflict,
        "beta1": beta1(extraction.claims, extraction.relations),
        "flaws": len(extraction.flaws),
    }
    return {
        name: float(value)
        for name, value in given.items()
        if value is not None and not isinstance(value, NotApplicable)
    }


def _number(given: Chirality | NotApplicable) -> float | NotApplicable:
    return given if isinstance(given, NotApplicable) else given.value


def found(judgement: Judgement) -> tuple[Finding, ...]:
    """What the rules find in a reply."""
    return judgement.remember("findings", lambda: findings(values_of(judgement), _rules))
