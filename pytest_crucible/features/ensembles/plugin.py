"""The hooks of ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    from pytest_crucible.metrics import Metric
    from pytest_crucible.records import Outcome, Plan, Reply, Sample
    from pytest_crucible.score import Scored
    from pytest_crucible.session.experiment import ExperimentDraft


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"diversity": Placed(180, "pytest_crucible.features.ensembles.section", _has_members)}


def _has_members(plan: Plan) -> bool:
    return any(arm.members for arm in plan.arms)


def pytest_crucible_plan(draft: ExperimentDraft) -> None:
    """Score the replies of members with those of their ensembles."""
    members = dict.fromkeys(name for arm in draft.arms for name in arm.arm.members)
    if members:
        from pytest_crucible.features.ensembles.section import ensemble_facts

        draft.facts += ensemble_facts(draft.scored.facts, members)
    # Also without an ensemble: a backend of the user's own may return a reply with members.
    draft.further_scores.append(_score_members)


async def _score_members(
    metrics: Sequence[Metric], outcome: Outcome, reply: Reply, sample: Sample, scored: Scored
) -> None:
    """Add the scores of members, imported at the first reply that has some."""
    if reply.members:
        from pytest_crucible.features.ensembles.section import score_members

        await score_members(metrics, outcome, reply, sample, scored)
