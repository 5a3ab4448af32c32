"""The plan printed for each experiment before it runs: arms, samples, and the smallest detectable differences."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from pytest_crucible.records import DetectableEffect, Plan
from pytest_crucible.records.number_format import points, quantity

# Fewer groups give no interval, so a comparison could decide nothing.
FEWEST_GROUPS = 5
# Not the terminal's width: plans are also read in CI logs and on pages, and tests compare them.
WIDTH = 80


def announcement(
    plan: Plan, foresight: Sequence[DetectableEffect], not_queried: Sequence[str] = (), *, replayed: bool = False
) -> str:
    """Return lines of at most 80 columns: arms and samples, then each metric, then what no request is sent for.

    `crucible: test_math: v2 vs v1, 200 samples x 2 arms = 400 replies`, and below it
    `  accuracy: can detect differences of 8.8 points or more`.
    """
    name = plan.nodeid.partition("::")[2]
    arms = " vs ".join(arm.name for arm in plan.arms)
    lines = [f"crucible: {name}: {arms}, {_size(plan)}"]
    first = [effect for effect in foresight if effect.contrast.baseline == foresight[0].contrast.baseline]
    lines += _metric_lines(first, plan.groups)
    if not_queried:
        lines.append(f"  {', '.join(not_queried)} not queried: the test compares nothing (@pytest.mark.ab_compare)")
    if replayed:
        lines.append("  no model is called: replies come from the reply cache")
    return "\n".join(map(_wrapped, lines))


def _wrapped(line: str) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False)


def _metric_lines(effects: Sequence[DetectableEffect], groups: int | None) -> Iterator[str]:
    """Yield a line for each metric, and one for the assumption that adjacent metrics share."""
    if groups is not None and groups < FEWEST_GROUPS:
        few = f"{groups} groups are too few to compare by, {FEWEST_GROUPS} at least"
        yield from (f"  {effect.contrast.expression}: {few}" for effect in effects)
        return
    for assumption, sharing in groupby(effects, key=lambda effect: effect.assumption):
        for effect in sharing:
            yield _metric_line(effect, groups)
            if effect.needed is not None and effect.contrast.margin is not None:
                yield _margin_line(effect, groups)
        yield f"  (80 % power{f', if {assumption}' if assumption else ''})"


def _size(plan: Plan) -> str:
    samples = quantity(plan.selected, "sample")
    if plan.selected < plan.planned:
        samples = f"{plan.selected:,} of {plan.planned:,} samples"
    if plan.groups is not None:
        samples += f" in {plan.groups:,} groups"
    if plan.repeats > 1:
        samples += f" x {plan.repeats} repeats"
    arm_count = sum(arm.stored_run is None for arm in plan.arms)
    total = plan.selected * plan.repeats * arm_count
    return f"{samples} x {arm_count} arms = {total:,} replies" if arm_count > 1 else samples


def _metric_line(effect: DetectableEffect, groups: int | None) -> str:
    unit = "samples" if groups is None else "groups"
    detects = f"can detect differences of {_amount(effect)} or more"
    shown = f"too few {unit} to detect a difference" if effect.detectable is None else detects
    return f"  {effect.contrast.expression}: {shown}"


def _margin_line(effect: DetectableEffect, groups: int | None) -> str:
    symbol = "n" if groups is None else "groups"
    return f"    margin {effect.contrast.margin:g} needs about {symbol}={effect.needed:,}"


def _amount(effect: DetectableEffect) -> str:
    value = effect.detectable or 0.0
    return points(value) if effect.unit == "points" else f"{value:.2g} {effect.unit}".rstrip()
