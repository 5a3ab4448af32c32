"""Plans of runs that may stop at any look: which claims a confidence sequence can decide, and the error rate of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_crucible.measures.table import GEOMETRIC, bounds_problem, comparison_row
from pytest_crucible.plan.variant_terms import term_metric
from pytest_crucible.records import Contrast, MetricFacts, Plan, Target
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.known_numbers import targets_on_samples
from pytest_crucible.records.variants import SAME_ANSWER

DECIDED = ("mean", "rate")
"""Statistics that are the mean of one value a sample."""


def look_alpha(plans: Sequence[Plan], alpha: float) -> float:
    """Return the error rate of each claim: all claims of a session hold together with probability 1 - alpha (Bonferroni)."""
    return alpha / max(sum(len(claims(plan)) for plan in plans), 1)


def with_looks(plan: Plan, alpha: float) -> Plan:
    """Return the plan for a run with looks. Raises SpecError for one that a confidence sequence cannot decide."""
    if plan.by_item:
        raise SpecError(
            "--crucible-stop can end marked experiments only, and pytest runs all items of this joined test: "
            "deselect it, or leave the option out"
        )
    if plan.random_factors:
        factors = " and ".join(plan.random_factors)
        raise SpecError(
            f"--crucible-stop cannot count the noise of {factors}: leave it out, or declare fixed={list(plan.random_factors)}"
        )
    facts = plan.facts
    for claim in claims(plan):
        _check_claim(claim, facts.get(claim.metric))
    return replace(plan, look_alpha=alpha) if claims(plan) else plan


def claims(plan: Plan) -> list[Target | Contrast]:
    """Return the targets and comparisons that get a verdict by the samples' scores."""
    targets = targets_on_samples(plan.targets)
    return [*targets, *(contrast for contrast in plan.contrasts if contrast.decides)]


def _check_claim(claim: Target | Contrast, facts: MetricFacts | None) -> None:
    if term_metric(claim.metric) == SAME_ANSWER:
        raise SpecError(
            f"--crucible-stop cannot look at {claim.metric!r}, which compares two replies: leave one of them out"
        )
    if claim.statistic not in DECIDED:
        raise SpecError(
            f"--crucible-stop decides means and rates, and {claim.expression!r} is neither: "
            "ask for a rate, such as rate(latency_s <= 2) >= 0.95"
        )
    if isinstance(claim, Target) and claim.relation == "==":
        raise SpecError(f"--crucible-stop cannot prove {claim.text!r}: ask for >= or <=")
    if isinstance(claim, Contrast) and claim.is_relative:
        raise SpecError(
            f"--crucible-stop compares means, and {claim.expression!r} by {claim.limit_text} is about a ratio: "
            "ask for a rate, such as rate(latency_s <= 2)"
        )
    if isinstance(claim, Contrast) and facts is not None and comparison_row(claim, facts) is GEOMETRIC:
        raise SpecError(
            f"--crucible-stop compares means, and {claim.expression!r} alone is compared by the {GEOMETRIC.title}: "
            f"write mean({claim.metric}), a margin in its units, or a rate"
        )
    if isinstance(claim, Contrast) and facts is not None and facts.applies == "reply":
        raise SpecError(
            f"--crucible-stop compares means of the same samples, and {claim.metric!r} applies to some replies only: leave it out"
        )
    # A kind that is not declared is known from the first scores.
    problem = bounds_problem(claim, facts) if facts is not None and facts.kind is not None else ""
    if problem:
        raise SpecError(problem)
