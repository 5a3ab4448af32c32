"""Sweep: the members of a family on the choosing half, where each was dropped, and the winner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.analyse.members import CorrectedMean, correct_winner, member_values
from pytest_crucible.features.sweeps.records import SWEEP_OF, ChoosingHalf, Sweep, SweepLook, load_choosing_half
from pytest_crucible.features.sweeps.sweep_members import METHOD as SETTINGS
from pytest_crucible.features.sweeps.sweep_members import (
    SweepMembers,
    choosing_inputs,
    compare_members,
    setting_document,
    setting_note,
    setting_tables,
)
from pytest_crucible.plan.arms import look_order
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Note, Row, Statement, Table, View
from pytest_crucible.records.views import experiment_name
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.sections.many_arms import METHOD, arm_document, distance_text, not_worse_text, rank_text
from pytest_crucible.stats.number_format import number, quantity, with_interval

decides = False  # no claim of it can fail the session

CITES = ("gupta1965", "hsu1984")
"""Keys of the references for proven drops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """A sweep, with the estimates of its members."""

    sweep: Sweep
    winner: str
    """Empty without a winner."""
    looks: tuple[SweepLook, ...]
    compared: SweepMembers | None
    """The members in grid order, each on the samples up to the look that dropped it; None in experiments that did not choose."""
    dropped_after: Mapping[str, int]
    """Member -> samples."""
    corrected: CorrectedMean | None = None
    """The winner's estimate where the same samples have chosen it."""


def compute(inputs: SectionInputs) -> SweepResult | None:
    """Return the sweep that the candidate has won; None if it was named."""
    sweep, half = SWEEP_OF.of(inputs.plan), None
    if sweep is not None:
        half = load_choosing_half(sweep, inputs.stored)
    if sweep is None or half is None:
        return None
    return SweepResult(
        sweep=sweep,
        winner=half.winner,
        looks=half.looks,
        compared=_compare(half, sweep, inputs.alpha) if sweep.test == inputs.plan.nodeid else None,
        corrected=_correct(half, sweep) if not sweep.confirm and sweep.test == inputs.plan.nodeid else None,
        dropped_after={
            member.name: half.looked_at(member.name)
            for member in sweep.members
            if any(member.name not in look.remaining for look in half.looks)
        },
    )


def _compare(half: ChoosingHalf, sweep: Sweep, alpha: float) -> SweepMembers | None:
    return compare_members(half, look_order(half.replies.sample_ids, half.replies.groups), sweep, alpha=alpha)


def _correct(half: ChoosingHalf, sweep: Sweep) -> CorrectedMean | None:
    order = look_order(half.replies.sample_ids, half.replies.groups)
    members = range(len(sweep.members))
    compared = member_values(choosing_inputs(half, order), sweep.by, members, range(len(half.replies.groups)))
    corrected = None if compared is None else correct_winner(compared)
    return corrected if corrected is not None and sweep.members[corrected.arm].name == half.winner else None


def claims(result: SweepResult) -> Sequence[Claim]:
    """Return nothing: the choosing half proves nothing about the winner."""
    return ()


def view(result: SweepResult, claims: Sequence[Claim]) -> View:
    """Return a table of the members, and the winner."""
    sweep = result.sweep
    won = f"{result.winner or 'no member'} has won"
    if result.compared is None:
        where = experiment_name(sweep.test)
        return View(
            title="Sweep",
            notes=(Note(text=f"{won} the sweep of {sweep.family} by {sweep.by} in {where}"),),
            document=_document(result),
        )
    return View(
        title="Sweep",
        tables=(_table(result, result.compared), *setting_tables(result.compared.settings)),
        notes=(
            Note(text=f"{won} the sweep of {sweep.family} by {sweep.by} {_basis(result)}"),
            Note(text=_not_worse_text(result, result.compared)),
            setting_note(result.compared.settings),
        ),
        methods=tuple(_methods(sweep, result.compared)),
        document=_document(result),
    )


def _table(result: SweepResult, compared: SweepMembers) -> Table:
    table = compared.members
    percent = f"{table.level * 100:g} %"
    heads = (
        f"sweep of {result.sweep.family}",
        f"{result.sweep.by} [{percent} interval]",
        "n",
        "dropped",
        "rank [possible]",
        "ratio to the best" if table.by_ratio else "from the best",
    )
    return Table(
        title=f"The members of {result.sweep.family} on the choosing half",
        heads=heads,
        rows=tuple(
            Row(
                cells=(
                    member.arm,
                    with_interval(member.value, member.interval),
                    f"{member.n:,}",
                    _fate(result, member.arm),
                    rank_text(member),
                    distance_text(member, table),
                )
            )
            for member in table.arms
        ),
        numbers=("n",),
        note=f"{_ALONE if result.sweep.confirm else _TOGETHER} {_together(result, compared, percent)}",
    )


_ALONE = "Means are of single members: the best of equal ones looks better than it is."
_TOGETHER = "Means, as in the verdicts, have intervals that hold for all members; the best of equal ones looks better than it is."


def _together(result: SweepResult, compared: SweepMembers, percent: str) -> str:
    """Return a sentence on the basis of ranks and differences, or why there are none."""
    if compared.members.reason:
        return f"No ranks: {compared.members.reason}."
    dropped = "; of dropped ones at their last look" if result.dropped_after else ""
    return f"Ranks and differences hold for all together ({percent}){dropped}."


def _not_worse_text(result: SweepResult, compared: SweepMembers) -> str:
    """Return a sentence on the members that may be the best: those that were dropped are proven not to be, or not tested."""
    table, dropped = compared.members, result.dropped_after
    if result.sweep.drop == "proven" or not dropped or table.reason:
        return not_worse_text(table, "members")
    untested = f'{quantity(len(dropped), "dropped member")} may be better: drop = "half" tests nothing'
    if len(table.arms) - len(dropped) == 1:
        return f"{table.metric}: {untested}"
    return f"{not_worse_text(table, 'members that were kept', dropped)}; {untested}"


def _fate(result: SweepResult, member: str) -> str:
    if member == result.winner:
        return "winner"
    dropped = result.dropped_after.get(member)
    return "" if dropped is None else f"after {dropped:,}"


def _basis(result: SweepResult) -> str:
    sweep, corrected = result.sweep, result.corrected
    chose = f"on {quantity(sweep.choosing, 'sample')}"
    if sweep.confirm:
        return f"{chose}; verdicts rest on {sweep.confirming:,} others"
    means = "; its estimate cannot be corrected for that"
    if corrected is not None:
        fair, naive = number(corrected.value), number(corrected.naive)
        corrected_text = with_interval(corrected.value, corrected.interval)
        # The same number twice, with two intervals, would be a riddle.
        means = "" if fair == naive else f"; corrected for that, its {sweep.by} is {corrected_text}, not {naive}"
    return f"{chose}, which give the verdicts, too; claims hold for all {len(sweep.members)} members{means}"


def _methods(sweep: Sweep, compared: SweepMembers) -> list[Statement]:
    looks = f"after {', '.join(map(str, sweep.looks))} samples"
    if sweep.trials:
        return [
            Statement(
                text=f"Optuna proposed the settings of {len(sweep.members)} trials from the mean of {sweep.by} in earlier ones "
                f"(tree-structured Parzen estimator, seed {sweep.seed}). They answered {sweep.choosing:,} samples, and only the "
                f"best one and the baselines answered the other {sweep.confirming:,}, on which the verdicts rest."
            )
        ]
    drops = {
        "proven": f"Members that are proven not to be the best {looks} get no more requests: each is compared with all others "
        "(subset selection). The looks share an error rate of 0.025 for dropping the best member, so that the members that are "
        "named as not proven worse include the best one in 95 % of sweeps.",
        "half": f"The better half of the members goes on {looks}. This guarantees nothing about the best member.",
        "none": "No member is dropped.",
    }
    halves = (
        f"The samples are divided by a hash of their ids, groups whole: on {sweep.choosing:,} the {len(sweep.members)} members "
        f"of {sweep.family} compete by the mean of {sweep.by}, and only the winner and the baselines answer the other "
        f"{sweep.confirming:,}, on which the verdicts rest."
    )
    if not sweep.confirm:
        halves = (
            f"The {len(sweep.members)} members of {sweep.family} compete by the mean of {sweep.by} on all samples. Claims about "
            "the winner hold for all members at once (Bonferroni), targets need proof, and its estimate is corrected as that of "
            "the best of several (Andrews, Kitagawa and McCloskey 2024)."
        )
    cites = CITES if sweep.drop == "proven" else ()
    more = [*([] if compared.members.reason else [METHOD]), *([SETTINGS] if compared.settings.means else [])]
    return [Statement(text=halves), Statement(text=drops[sweep.drop], cites=cites), *more]


def _document(result: SweepResult) -> dict[str, Any]:
    sweep = result.sweep
    return {
        "family": sweep.family,
        "test": sweep.test,
        "by": sweep.by,
        "confirm": sweep.confirm,
        "drop": sweep.drop,
        "grid": sweep.grid,
        "search": {"trials": sweep.trials, "seed": sweep.seed} if sweep.trials else None,
        "sha256": sweep.sha256,
        "choosing": sweep.choosing,
        "choosing_sha256": sweep.choosing_sha256,
        "confirming": sweep.confirming,
        "looks": [{"samples": look.samples, "kept": look.remaining} for look in result.looks],
        "winner": result.winner or None,
        "corrected": None
        if result.corrected is None
        else {
            "value": result.corrected.value,
            "low": result.corrected.interval.low,
            "high": result.corrected.interval.high,
            "naive": result.corrected.naive,
        },
        "members": [
            {
                "name": member.name,
                "settings": member.settings,
                "identity": member.identity,
                "dropped_after": result.dropped_after.get(member.name),
                **_compared_document(result.compared, member.name),
            }
            for member in sweep.members
        ],
        **_comparison_document(result, result.compared),
    }


def _compared_document(compared: SweepMembers | None, name: str) -> dict[str, Any]:
    if compared is None:
        return {}
    document = arm_document(next(result for result in compared.members.arms if result.arm == name), compared.members)
    return {key: value for key, value in document.items() if key != "arm"}


def _kept_of(names: Sequence[str], result: SweepResult) -> list[str]:
    return [name for name in names if name not in result.dropped_after]


def _comparison_document(result: SweepResult, compared: SweepMembers | None) -> dict[str, Any]:
    if compared is None:
        return {}
    members = compared.members
    return {
        "not_proven_worse": None if members.reason else _kept_of(members.not_proven_worse, result),
        "not_ranked": members.reason,
        "common": members.n,
        "settings": setting_document(compared.settings),
    }
