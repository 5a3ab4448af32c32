"""Sweep: the members of a family on the choosing half, where each was dropped, and the winner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_crucible.analyse.member_values import estimate_members
from pytest_crucible.plan.look_order import look_order
from pytest_crucible.records import ChoosingHalf, Claim, Estimate, Note, Row, Statement, Sweep, SweepLook, Table, View
from pytest_crucible.records.number_format import quantity, with_interval
from pytest_crucible.records.views import experiment_name
from pytest_crucible.sections.inputs import SectionInputs

CITES = ("gupta1965", "hsu1984")
"""Of the drops that are proven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """A sweep, with the estimates of its members."""

    sweep: Sweep
    winner: str
    """Empty where there is none."""
    looks: tuple[SweepLook, ...]
    members: tuple[Estimate, ...]
    """In grid order, each on the samples up to the look that dropped it; empty in the experiments that did not choose."""
    dropped_after: Mapping[str, int]
    """Member -> samples."""


def compute(inputs: SectionInputs) -> SweepResult | None:
    """Return the sweep that the candidate has won; None where it was named."""
    sweep, half = inputs.plan.sweep, inputs.stored.choosing_half()
    if sweep is None or half is None:
        return None
    return SweepResult(
        sweep=sweep,
        winner=half.winner,
        looks=half.looks,
        members=_estimates(half, sweep, inputs.alpha) if sweep.test == inputs.plan.nodeid else (),
        dropped_after={
            member.name: half.looked_at(member.name)
            for member in sweep.members
            if any(member.name not in look.kept for look in half.looks)
        },
    )


def _estimates(half: ChoosingHalf, sweep: Sweep, alpha: float) -> tuple[Estimate, ...]:
    order = look_order(half.sample_ids, half.groups)
    return estimate_members(half, order, sweep.by, level=1 - alpha)


def claims(result: SweepResult) -> Sequence[Claim]:
    """Return nothing: the choosing half proves nothing about the winner."""
    return ()


def view(result: SweepResult, claims: Sequence[Claim]) -> View:
    """Return a table of the members, and who has won."""
    sweep = result.sweep
    won = f"{result.winner or 'no member'} has won"
    if not result.members:
        where = experiment_name(sweep.test)
        return View(
            title="Sweep",
            notes=(Note(text=f"{won} the sweep of {sweep.family} by {sweep.by} in {where}"),),
            document=_document(result),
        )
    return View(
        title="Sweep",
        tables=(_table(result),),
        notes=(
            Note(
                text=f"{won} the sweep of {sweep.family} by {sweep.by} "
                f"on {quantity(sweep.choosing, 'sample')}; verdicts rest on {sweep.confirming:,} others"
            ),
        ),
        methods=tuple(_methods(sweep)),
        document=_document(result),
    )


def _table(result: SweepResult) -> Table:
    level = next((f"{one.interval.level:.0%}" for one in result.members if one.interval), "95%").replace("%", " %")
    heads = (f"sweep of {result.sweep.family}", f"{result.sweep.by} [{level} interval]", "n", "dropped")
    return Table(
        title=f"The members of {result.sweep.family} on the choosing half",
        heads=heads,
        rows=tuple(
            Row(
                cells=(
                    estimate.arm,
                    with_interval(estimate.value, estimate.interval),
                    f"{estimate.n:,}",
                    _fate(result, estimate.arm),
                )
            )
            for estimate in result.members
        ),
        numbers=("n",),
        note="Intervals are of single members: the best of several equal members looks better than it is.",
    )


def _fate(result: SweepResult, member: str) -> str:
    if member == result.winner:
        return "winner"
    dropped = result.dropped_after.get(member)
    return "" if dropped is None else f"after {dropped:,}"


def _methods(sweep: Sweep) -> list[Statement]:
    looks = f"after {', '.join(map(str, sweep.looks))} samples"
    drops = {
        "proven": f"Members that are proven not to be the best {looks} get no more requests: each is compared with all others "
        "(subset selection), and the looks share an error rate of 0.05 for dropping the best member.",
        "half": f"The better half of the members goes on {looks}. This guarantees nothing about the best member.",
        "none": "No member is dropped.",
    }
    halves = (
        f"The samples are divided by a hash of their ids, groups whole: on {sweep.choosing:,} the {len(sweep.members)} members "
        f"of {sweep.family} compete by the mean of {sweep.by}, and only the winner and the baselines answer the other "
        f"{sweep.confirming:,}, on which the verdicts rest."
    )
    return [Statement(text=halves), Statement(text=drops[sweep.drop], cites=CITES if sweep.drop == "proven" else ())]


def _document(result: SweepResult) -> dict[str, Any]:
    sweep = result.sweep
    return {
        "family": sweep.family,
        "test": sweep.test,
        "by": sweep.by,
        "confirm": sweep.confirm,
        "drop": sweep.drop,
        "grid": sweep.grid,
        "sha256": sweep.sha256,
        "choosing": sweep.choosing,
        "choosing_sha256": sweep.choosing_sha256,
        "confirming": sweep.confirming,
        "looks": [{"samples": look.samples, "kept": look.kept} for look in result.looks],
        "winner": result.winner or None,
        "members": [
            {
                "name": member.name,
                "settings": member.settings,
                "identity": member.identity,
                "dropped_after": result.dropped_after.get(member.name),
                **_estimate_document(next((one for one in result.members if one.arm == member.name), None)),
            }
            for member in sweep.members
        ],
    }


def _estimate_document(estimate: Estimate | None) -> dict[str, Any]:
    if estimate is None:
        return {}
    interval = estimate.interval
    return {
        "n": estimate.n,
        "lost": estimate.lost,
        "value": estimate.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }
