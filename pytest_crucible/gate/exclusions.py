"""A verdict decided again without excluded samples, such as those that the candidate was trained on."""

from __future__ import annotations

from typing import NamedTuple

from pytest_crucible.records import ReducedEvidence, State


class Settled(NamedTuple):
    """A decision on a target or a comparison, after lost samples and selections were weighed."""

    state: State
    proven: bool
    caveat: str = ""
    """Why it differs from the verdict on the scored samples alone; empty if it does not."""


def decide_without_excluded(whole: Settled, n: int, rest: Settled, reduced: ReducedEvidence) -> Settled:
    """Return the decision that does not depend on excluded samples.

    `whole` was decided on all `n` samples, `rest` by the same rule on the reduced evidence. Where the two states differ, the
    verdict is undecided; where only the proof is lost, it is no longer proven. Both reasons name the number of excluded samples.
    """
    without = f"without the {reduced.excluded:,} that {reduced.reason}"
    if whole.state == "undecided":
        return whole
    if rest.state != whole.state:
        return Settled("undecided", False, f"{whole.state} on {n:,} samples, {rest.state} {without}")
    if whole.proven and not rest.proven:
        return Settled(whole.state, False, f"proven on {n:,} samples, unproven {without}")
    return whole
