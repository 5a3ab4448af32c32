"""Sentences about the reach of a metric: a sample that refutes it, and one that would decide if it were declared."""

from __future__ import annotations

from pytest_crucible.records import BeyondReach, Comparison, State


def refuted_text(beyond: BeyondReach, metric: str) -> str:
    """Return why nothing is decided: `sample 'q17' changed by +0.62, more than the declared reach 0.25 (against v1): ...`."""
    others = beyond.samples - 1
    more = f", and so did {others:,} other {'sample' if others == 1 else 'samples'}" if others else ""
    return (
        f"sample {beyond.sample!r} changed by {beyond.change:+.3g}, more than the declared reach {beyond.reach:g} "
        f"(against {beyond.baseline}{more}): nothing is decided by {metric!r}; look at the sample, or raise reach"
    )


def suggestion_text(comparison: Comparison, state: State, proven: bool) -> str:
    """Return which reach would decide an open claim, to follow its reason; empty without one.

    It must not be chosen by these data, so it is about the next run.
    """
    reach = comparison.suggested_reach
    is_open = state == "undecided" or (state == "missed" and not proven)
    if reach is None or not is_open:
        return ""
    decides = "decide" if state == "undecided" else "prove it"
    return (
        f"; if no sample can change by more than {reach:g} (known from the metric, not from these data), declare "
        f"reach={reach:g} before the next run, with new replies: differences like these would then {decides}"
    )
