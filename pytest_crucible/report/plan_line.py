"""The line printed for each experiment before it runs: arms, samples, and the smallest detectable difference."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.records import DetectableEffect, Plan
from pytest_crucible.records.number_format import points

# Fewer groups give no interval, so a comparison could decide nothing.
FEWEST_GROUPS = 5


def announcement(
    plan: Plan, foresight: Sequence[DetectableEffect], not_queried: Sequence[str] = (), *, replayed: bool = False
) -> str:
    """`crucible: test_math: v2 vs v1, 200 samples x 2 arms = 400 replies; accuracy: can detect differences of ...`"""
    name = plan.nodeid.partition("::")[2]
    arms = " vs ".join(arm.name for arm in plan.arms)
    parts = [f"crucible: {name}: {arms}, {_size(plan)}"]
    first = [effect for effect in foresight if effect.contrast.baseline == foresight[0].contrast.baseline]
    parts += [_shows(effect, plan.groups) for effect in first]
    if not_queried:
        parts.append(f"{', '.join(not_queried)} not queried: the test compares nothing (@pytest.mark.ab_compare)")
    if replayed:
        parts.append("no model is called: replies come from the reply cache")
    return "; ".join(parts)


def _size(plan: Plan) -> str:
    samples = f"{plan.selected:,} samples"
    if plan.selected < plan.planned:
        samples = f"{plan.selected:,} of {plan.planned:,} samples"
    if plan.groups is not None:
        samples += f" in {plan.groups:,} groups"
    if plan.repeats > 1:
        samples += f" x {plan.repeats} repeats"
    arm_count = sum(arm.stored_run is None for arm in plan.arms)
    total = plan.selected * plan.repeats * arm_count
    return f"{samples} x {arm_count} arms = {total:,} replies" if arm_count > 1 else samples


def _shows(effect: DetectableEffect, groups: int | None) -> str:
    if groups is not None and groups < FEWEST_GROUPS:
        return f"{effect.contrast.expression}: {groups} groups are too few to compare by, {FEWEST_GROUPS} at least"
    what = (
        "too few to detect a difference"
        if effect.detectable is None
        else f"can detect differences of {_amount(effect)} or more"
    )
    assumed = f", if {effect.assumption}" if effect.assumption else ""
    line = f"{effect.contrast.expression}: {what} (80 % power{assumed})"
    if effect.needed is not None and effect.contrast.margin is not None:
        line += (
            f", margin {effect.contrast.margin:g} needs about {'n=' if groups is None else 'groups='}{effect.needed:,}"
        )
    return line


def _amount(effect: DetectableEffect) -> str:
    value = effect.detectable or 0.0
    return points(value) if effect.unit == "points" else f"{value:.2g} {effect.unit}".rstrip()
