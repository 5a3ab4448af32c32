"""Attacks of stored runs: what their variants mean, and which of them two runs have in common."""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.features.robustness.drops import attack_variants
from pytest_crucible.features.robustness.records import ALIASES, CONTROL, ROBUSTNESS, is_attacked
from pytest_crucible.records import Plan
from pytest_crucible.records.datasets import VariantRules


def variant_rules(plan: Plan) -> VariantRules | None:
    """Return what is known of the attacked variants of a plan; None for a plan without attacks."""
    robustness = ROBUSTNESS.of(plan)
    if robustness is None:
        return None
    return VariantRules(
        normalise=robustness.normalise,
        kept=robustness.kept,
        groups=dict(attack_variants(plan)),
        attacked=tuple(variant.name for variant in plan.variants if is_attacked(variant.name)),
        aliases=ALIASES,
    )


def with_common_attacks(plan: Plan, ours: Plan) -> Plan:
    """Return the plan, which has the variants that two runs have in common, with those attacks of ours that are complete."""
    robustness, names = ROBUSTNESS.of(ours), {variant.name for variant in plan.variants}
    if robustness is None or not names:
        return ROBUSTNESS.on(plan, None)
    complete = {attack for attack, variants in attack_variants(ours) if names.issuperset(variants)}
    attacks = tuple(attack for attack in robustness.attacks if attack.name in complete)
    # The worst of some variants needs as many controls as these.
    is_whole = len(names) == len(ours.variants)
    controls = robustness.controls if is_whole else min(robustness.controls, CONTROL in names)
    return ROBUSTNESS.on(plan, replace(robustness, attacks=attacks, controls=controls))
