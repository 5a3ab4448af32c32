"""The variants that two stored experiments have in common, so that a comparison of their arms has them too."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from pytest_crucible.analyse.drops import attack_variants
from pytest_crucible.plan.variant_terms import VariantNames, variant_terms
from pytest_crucible.records import ArmOutcomes, MetricFacts, Plan, VariantGroup, VariantTerm
from pytest_crucible.records.robustness import CONTROL, SAME_ANSWER
from pytest_crucible.records.variant_views import VIEWS, view_problem
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.store.experiments import load_experiment
from pytest_crucible.store.runs import RunStore


def with_common_variants(plan: Plan, ours: Plan, theirs: Plan) -> Plan:
    """Return the plan with those variants of our experiment that the other has with equal texts, and their attacks."""
    equal = {(variant.name, variant.sha256) for variant in theirs.variants}
    common = tuple(variant for variant in ours.variants if (variant.name, variant.sha256) in equal)
    names = {variant.name for variant in common}
    robustness = ours.robustness
    if robustness is not None:
        complete = {attack for attack, variants in attack_variants(ours) if names.issuperset(variants)}
        attacks = tuple(attack for attack in robustness.attacks if attack.name in complete)
        # The worst of some variants needs as many controls as these.
        controls = (
            robustness.controls if len(common) == len(ours.variants) else min(robustness.controls, CONTROL in names)
        )
        robustness = dataclasses.replace(robustness, attacks=attacks, controls=controls)
    terms = tuple(term for term in ours.variant_terms if names.issuperset(term.variants))
    in_both = {term.facts.name for term in theirs.variant_terms}
    # Texts are read for it only where a suite names it.
    terms = tuple(term for term in terms if term.metric != SAME_ANSWER or term.facts.name in in_both)
    return dataclasses.replace(plan, variants=common, variant_terms=terms, robustness=robustness if common else None)


def variant_notes(ours: Plan, theirs: Plan) -> Iterator[str]:
    """Yield which variants are left out, because one run lacks them or has other texts."""
    of_ours, of_theirs = ({variant.name: variant for variant in plan.variants} for plan in (ours, theirs))
    alone = [name for name in (*of_ours, *of_theirs) if (name in of_ours) != (name in of_theirs)]
    changed = [name for name in of_ours if name in of_theirs and of_ours[name].sha256 != of_theirs[name].sha256]
    if alone:
        yield f"variants in one run only, left out: {', '.join(alone)}"
    if changed:
        yield f"variants with other texts in the two runs, left out: {', '.join(changed)}"


def load_variant_answers(store: RunStore, key: int, arm: int) -> Mapping[str, ArmOutcomes]:
    """Return an arm's outcomes on each variant of a stored experiment, by the name of the variant."""
    stored = load_experiment(store, key)
    if not stored.variants:
        return {}
    # A comparison takes all replies, those after the run's last look included.
    whole = dataclasses.replace(stored, plan=dataclasses.replace(stored.plan, look_alpha=None))
    return {name: arms[arm] for name, arms in analysis_inputs(whole, finished=True).variants.items()}


def comparable_terms(plan: Plan, metrics: Mapping[str, MetricFacts]) -> tuple[VariantTerm, ...]:
    """Return every term that a comparison may name: those of the suite, and each metric and view on each attack."""
    groups = {term.group.name: term.group for term in plan.variant_terms if term.group is not None}
    groups |= {name: VariantGroup(name=name, variants=names) for name, names in attack_variants(plan) if len(names) > 1}
    own = {facts.name: facts for facts in plan.variant_metrics if facts.name != SAME_ANSWER}
    names = VariantNames([variant.name for variant in plan.variants], groups, own)
    views = [
        f"{name}.{view}" if view else name
        for name, facts in metrics.items()
        for view in VIEWS
        if not view_problem(view, facts)
    ]
    written = [f"{view}[{variant}]" for view in (*views, *own) for variant in names.known]
    others = variant_terms(written, metrics, names, open_metrics=False)
    return tuple({term.facts.name: term for term in (*others, *plan.variant_terms)}.values())
