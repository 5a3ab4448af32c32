"""A time for each step, for formats that need one."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.features.provenance.timeline import Step
from pytest_crucible.features.provenance.timeline_text import find_start


def step_times(steps: Sequence[Step]) -> list[float]:
    """Return when each step was over, in seconds since 1970. One without a time was over when the step before it was.

    >>> step_times([Step(kind="call", title=""), Step(kind="wait", title="", at=9.0, seconds=2.0), Step(kind="score", title="")])
    [7.0, 9.0, 9.0]
    """
    times: list[float] = []
    latest = find_start(steps) or 0.0
    for step in steps:
        latest = latest if step.at is None else step.at
        times.append(latest)
    return times
