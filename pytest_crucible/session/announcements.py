"""The line that announces an experiment: how many replies it needs, and the smallest differences that it can detect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.records import DetectableEffect, Plan
from pytest_crucible.records.settings import Settings
from pytest_crucible.report.plan_lines import announcement


@dataclass
class Announcement:
    """The facts behind the announcements of a session's plans. The hook `pytest_crucible_announce` may change it."""

    plans: Sequence[Plan]
    settings: Settings
    alpha: float
    """The error rate of all claims at the end of the run."""
    claims: int
    """The number of claims that share it."""
    lines: dict[str, list[tuple[int, str]]]
    """Further lines by nodeid, each with its place among those of other features."""


def announce_plans(
    plans: Sequence[Plan], settings: Settings, opened_arms: Sequence[OpenedArm], announce: Callable[..., object]
) -> dict[str, str]:
    """Return the announcement of each plan, by nodeid. All comparisons of the session share alpha.

    `announce` is the hook that features implement.
    """
    whole = Announcement(
        plans=plans,
        settings=settings,
        alpha=settings.alpha,
        claims=sum(contrast.shares_alpha for plan in plans for contrast in plan.contrasts),
        lines={plan.nodeid: [] for plan in plans},
    )
    announce(announcement=whole)
    lines = {}
    for plan in plans:
        foresight = _foresight(plan, alpha=whole.alpha, family_size=whole.claims)
        not_queried = [experiment.arm.name for experiment in opened_arms[len(plan.arms) :]]
        further = [line for _, line in sorted(whole.lines[plan.nodeid])]
        lines[plan.nodeid] = announcement(
            plan, foresight, not_queried, further=further, replayed=settings.cache == "only"
        )
    return lines


def _foresight(plan: Plan, *, alpha: float, family_size: int) -> tuple[DetectableEffect, ...]:
    """Return the effects that the plan's comparisons can detect. Modules that compute them are imported only if needed."""
    if not plan.contrasts or plan.look_alpha is not None:
        return ()
    from pytest_crucible.plan.power import detectable_effects

    return detectable_effects(plan, alpha=alpha / plan.chosen_among, family_size=family_size)
