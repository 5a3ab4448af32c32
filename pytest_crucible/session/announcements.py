"""The line that announces an experiment: how many replies it needs, and the smallest differences that it can detect."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.records import DetectableEffect, Plan
from pytest_crucible.records.settings import Settings
from pytest_crucible.records.stages import StageDecision
from pytest_crucible.report.plan_lines import announcement


def announce_plans(plans: Sequence[Plan], settings: Settings, opened_arms: Sequence[OpenedArm]) -> dict[str, str]:
    """Return the announcement of each plan, by nodeid. All comparisons of the session share alpha."""
    family_size = sum(contrast.shares_alpha for plan in plans for contrast in plan.contrasts)
    alpha = settings.alpha
    if settings.stages is not None:
        alpha, family_size = _share_of_last_stage(plans, alpha)
    lines = {}
    for plan in plans:
        foresight = _foresight(plan, alpha=alpha, family_size=family_size)
        not_queried = [experiment.arm.name for experiment in opened_arms[len(plan.arms) :]]
        lines[plan.nodeid] = announcement(plan, foresight, not_queried, replayed=settings.cache == "only")
    return lines


def _share_of_last_stage(plans: Sequence[Plan], alpha: float) -> tuple[float, int]:
    """Return the error rate of the last stage, and the number of claims that share it."""
    from pytest_crucible.runs.stages import alpha_of, count_claims

    stages = max((len(plan.stages) for plan in plans), default=0)
    return alpha_of(StageDecision(stage=stages - 1) if stages else None, plans, alpha), count_claims(plans)


def _foresight(plan: Plan, *, alpha: float, family_size: int) -> tuple[DetectableEffect, ...]:
    """Return the effects that the plan's comparisons can detect. Modules that compute them are imported only if needed."""
    if not plan.contrasts or plan.look_alpha is not None:
        return ()
    from pytest_crucible.plan.power import detectable_effects

    return detectable_effects(plan, alpha=alpha / plan.chosen_among, family_size=family_size)
