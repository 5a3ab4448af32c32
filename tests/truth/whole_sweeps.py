"""Whole sweeps with known means: drops on the choosing half, a winner, and its comparison on the confirming half."""

from __future__ import annotations

from dataclasses import dataclass

from sweep_evals import Array, SweepEval

from pytest_crucible.features.sweeps.rounds import LOOKS, choose_winner, look_lengths, members_that_go_on, split_halves
from pytest_crucible.stats import compare, estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """The end of one sweep. Members are numbered from 0."""

    winner: int
    live: tuple[int, ...]
    """The members that no look dropped."""
    replies: int
    """Sent on the choosing half."""
    naive: float
    """The winner's mean on the choosing half."""
    confirmed: float
    """Its mean on the confirming half."""
    covers: bool
    """Whether its interval there holds its true mean."""
    claims: bool
    """Whether a difference from the baseline is proven there."""


def run_sweep(case: SweepEval, values: Array) -> SweepRun:
    """Return the end of the sweep of all columns but the last, which is the baseline."""
    groups = (
        [None if case.clusters is None else f"g{code}" for code in case.clusters]
        if case.clustered
        else [None] * len(values)
    )
    # Samples are drawn alike, so that any fixed order is as good as that of hashes.
    order = range(len(values))
    halves = split_halves(order, groups, 0.5)
    members = values[:, :-1]
    live, replies = _compete(case, members, list(halves.choosing), groups)
    chosen = choose_winner(members[: len(halves.choosing)][:, live] if len(live) > 1 else members[:1, live])
    assert chosen is not None
    winner, confirming = live[chosen], list(halves.confirming)
    codes = None if case.clusters is None else case.clusters[confirming]
    ours, baseline = values[confirming, winner], values[confirming, -1]
    interval = estimate(ours, clusters=codes).interval
    p_value = compare(ours, baseline, clusters=codes).p_value
    return SweepRun(
        winner=winner,
        live=tuple(live),
        replies=replies,
        naive=float(members[list(halves.choosing), winner].mean()),
        confirmed=float(ours.mean()),
        covers=bool(interval and interval.low <= case.means[winner] <= interval.high),
        claims=p_value is not None and p_value <= 0.05,
    )


def _compete(case: SweepEval, members: Array, choosing: list[int], groups: list[str | None]) -> tuple[list[int], int]:
    """Return the members that are left, and the replies that they and the others have sent."""
    live, sent, replies = list(range(members.shape[1])), 0, 0
    lengths = look_lengths(choosing, groups, LOOKS)
    for length in lengths:
        replies, sent = replies + len(live) * (length - sent), length
        codes = None if case.clusters is None else case.clusters[choosing[:length]]
        confirming = members_that_go_on(members[choosing[:length]][:, live], codes, drop="proven", looks=len(lengths))
        live = [live[column] for column in confirming]
        if len(live) == 1:
            return live, replies
    return live, replies + len(live) * (len(choosing) - sent)
