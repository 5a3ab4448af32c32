"""One line an experiment, before anything is spent: arms, samples, and what this run can show."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.numerals import points
from pytest_crucible.records import Foresight, Plan

FEWEST_GROUPS = 5


def announcement(
    plan: Plan, foresight: Sequence[Foresight], unasked: Sequence[str] = (), *, replayed: bool = False
) -> str:
    """`crucible: test_math: v2 vs v1, 200 samples x 2 arms = 400 replies; accuracy: can show differences from 8.9 points ...`"""
    name = plan.nodeid.partition("::")[2]
    arms = " vs ".join(arm.name for arm in plan.arms)
    parts = [f"crucible: {name}: {arms}, {_size(plan)}"]
    first = [one for one in foresight if one.contrast.baseline == foresight[0].contrast.baseline]
    parts += [_shows(one, plan.groups) for one in first]
    if unasked:
        parts.append(f"{', '.join(unasked)} not asked: the test compares nothing (@pytest.mark.ab_compare)")
    if replayed:
        parts.append("nobody is asked: replies come from the reply cache")
    return "; ".join(parts)


def _size(plan: Plan) -> str:
    samples = f"{plan.selected:,} samples"
    if plan.selected < plan.planned:
        samples = f"{plan.selected:,} of {plan.planned:,} samples"
    if plan.groups is not None:
        samples += f" in {plan.groups:,} groups"
    if plan.epochs > 1:
        samples += f" x {plan.epochs} epochs"
    asked = sum(arm.stored_run is None for arm in plan.arms)
    total = plan.selected * plan.epochs * asked
    return f"{samples} x {asked} arms = {total:,} replies" if asked > 1 else samples


def _shows(one: Foresight, groups: int | None) -> str:
    if groups is not None and groups < FEWEST_GROUPS:
        return f"{one.contrast.metric}: {groups} groups are too few to compare by, {FEWEST_GROUPS} at least"
    what = "too few to show a difference" if one.detectable is None else f"can show differences from {_amount(one)}"
    assumed = f", if {one.assumption}" if one.assumption else ""
    line = f"{one.contrast.metric}: {what} (80 % power{assumed})"
    if one.needed is not None and one.contrast.margin is not None:
        line += f", margin {one.contrast.margin:g} needs about {'n=' if groups is None else 'groups='}{one.needed:,}"
    return line


def _amount(one: Foresight) -> str:
    value = one.detectable or 0.0
    return points(value) if one.unit == "points" else f"{value:.2g} {one.unit}".rstrip()
