"""The hooks of metrics by a judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    from pytest_crucible.records import Plan
    from pytest_crucible.session.experiment import Announcement


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"judges": Placed(160, "pytest_crucible.features.judges.section", _has_judges)}


def _has_judges(plan: Plan) -> bool:
    """Return whether judges may leave evidence about themselves, as metrics beside their own."""
    from pytest_crucible.records.measures import HUMAN, ORDERS, VOTES

    return plan.open_metrics or any(facts.name.endswith((HUMAN, ORDERS, VOTES)) for facts in plan.metrics)


def pytest_crucible_announce(announcement: Announcement) -> None:
    """Show how many requests to the judge the metrics of each plan take."""
    for plan in announcement.plans:
        if plan.judge_requests:
            from pytest_crucible.metrics.models.scorers import judge

            configured, replies = judge(), plan.count_new_replies()
            if configured is not None and replies:
                line = f"judge {configured.name}: {plan.judge_requests:,} x {replies:,} replies = "
                announcement.lines[plan.nodeid].append((50, f"{line}{plan.judge_requests * replies:,} requests"))
