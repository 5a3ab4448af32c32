"""Values of one reply for the conditions of rules, and the session's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.presets.cns3.antagonist import DEFAULT_RULES, Finding, Rule, findings
from pytest_crucible.presets.cns3.chirality import Chirality
from pytest_crucible.presets.cns3.graph import beta1
from pytest_crucible.presets.cns3.judgement import Judgement

_rules: tuple[Rule, ...] = DEFAULT_RULES


def use_rules(rules: tuple[Rule, ...]) -> Callable[[], object]:
    """Set the rules of the session; return a function that restores the former ones."""
    global _rules
    before, _rules = _rules, rules
    return lambda: use_rules(before)


def rules() -> tuple[Rule, ...]:
    return _rules


def measured_values(judgement: Judgement) -> Mapping[str, float]:
    """Return the values that apply and were measured."""
    citations, extraction = judgement.citations, judgement.extraction
    values = {
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
        for name, value in values.items()
        if value is not None and not isinstance(value, NotApplicable)
    }


def _number(chirality: Chirality | NotApplicable) -> float | NotApplicable:
    return chirality if isinstance(chirality, NotApplicable) else chirality.value


def findings_in(judgement: Judgement) -> tuple[Finding, ...]:
    """Return the findings of the session's rules in a reply."""
    return judgement.remember("findings", lambda: findings(measured_values(judgement), _rules))
