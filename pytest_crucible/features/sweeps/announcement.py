"""The lines that announce a sweep: its members, and the replies that they cost."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_crucible.features.sweeps.records import SWEEP_OF
from pytest_crucible.records import Plan
from pytest_crucible.records.views import experiment_name


def sweep_lines(plan: Plan) -> Iterator[str]:
    """Yield the line on the sweep of a plan; nothing without one."""
    sweep = SWEEP_OF.of(plan)
    if sweep is None:
        return
    if sweep.test != plan.nodeid:
        yield f"{sweep.family}: the winner of its sweep, which {experiment_name(sweep.test)} chooses"
        return
    which = f"{sweep.choosing:,} other samples" if sweep.confirm else "the same samples"
    members = f"{sweep.trials} trials" if sweep.trials else f"{len(sweep.members)} members"
    replies = sweep.choosing * (sweep.trials or len(sweep.members)) * plan.draws(0).size
    yield (f"{sweep.family}: first {members} compete by {sweep.by} on {which}, with at most {replies:,} replies")
