"""Refreshed replies: whether a request that was sent again, and should have the reply of before, has it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding, share_text
from pytest_crucible.records import Arm
from pytest_crucible.records.usage import JUDGE

KINDS = ("at temperature 0", "with equal seeds")


def check_refreshed(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on the replies that --crucible-cache=refresh has compared with the cached ones, if there are any."""
    counts = [count_refreshed(columns) for columns in inputs.arms]
    if not any(counts):
        return
    yield Finding(
        check="refreshed replies",
        cells=tuple(_cell(of_arm) for of_arm in counts),
        differs="not deterministic" if any(kind[1] for of_arm in counts for kind in of_arm) else "",
        problem="; ".join(filter(None, (_sentence(columns) for columns in inputs.arms))),
        document=[
            {
                kind: {"replies": of_arm[kind, False] + of_arm[kind, True], "differ": of_arm[kind, True]}
                for kind in KINDS
                if of_arm[kind, False] or of_arm[kind, True]
            }
            for of_arm in counts
        ],
    )


def count_refreshed(columns: ArmColumns) -> Counter[tuple[str, bool]]:
    """Return the number of refreshed replies by why they should be the same, and whether they differ."""
    calls = columns.calls
    kinds: dict[str, str] = {}
    counts = Counter[tuple[str, bool]]()
    for row in _refreshed_rows(columns):
        text = calls.parameters[row]
        if text not in kinds:
            kinds[text] = kind_of(columns.arm, json.loads(text) if text else None)
        counts[kinds[text], not calls.as_before[row]] += 1
    return counts


def kind_of(arm: Arm, parameters: Mapping[str, object] | None) -> str:
    """Return why a reply should be the same: at temperature 0, or else by its seed; None are the parameters of the arm."""
    temperature = (arm.parameters if parameters is None else parameters).get("temperature")
    return KINDS[0 if temperature == 0 else 1]


def _refreshed_rows(columns: ArmColumns) -> Iterator[int]:
    for row, as_before in enumerate(columns.calls.as_before):
        if as_before is not None and not columns.calls.members[row].startswith(JUDGE):
            yield row


def _cell(counts: Counter[tuple[str, bool]]) -> str:
    totals = {kind: counts[kind, False] + counts[kind, True] for kind in KINDS}
    return "; ".join(f"{counts[kind, True]:,} of {n:,} differ, {kind}" for kind, n in totals.items() if n)


def _sentence(columns: ArmColumns) -> str:
    """Return a sentence on the samples of an arm with another reply than before; empty if there are none."""
    calls = columns.calls
    samples = {calls.positions[row] for row in _refreshed_rows(columns)}
    differ = {calls.positions[row] for row in _refreshed_rows(columns) if not calls.as_before[row]}
    if not differ:
        return ""
    return (
        f"{columns.arm.name} gave other replies than those that were cached on {len(differ):,} of {len(samples):,} samples "
        f"({share_text(len(differ), len(samples))}), at temperature 0 or with equal seeds: it is not deterministic, or has "
        "changed since"
    )
