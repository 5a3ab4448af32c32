"""Lines of a plan on what its comparisons can detect."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pytest_crucible.records import DetectableEffect
from pytest_crucible.stats.number_format import points, quantity

# Fewer groups give no interval, so a comparison could decide nothing.
FEWEST_GROUPS = 5
# A line for each of sixty slices would push the plan off the screen.
MOST_SLICES = 6


def effect_lines(effects: Sequence[DetectableEffect], groups: int | None) -> Iterator[str]:
    """Yield a line for each comparison, and one for the assumption that adjacent comparisons share.

    Comparisons by a field with many slices share one line.
    """
    if groups is not None and groups < FEWEST_GROUPS:
        few = f"{groups} groups are too few to compare by, {FEWEST_GROUPS} at least"
        yield from (f"  {effect.contrast.expression}: {few}" for effect in effects)
        return
    by_slice = _find_many_slices(effects)
    for of_slices in by_slice:
        yield from _slices_lines(of_slices)
    in_one_line = {id(effect) for of_slices in by_slice for effect in of_slices}
    others = [effect for effect in effects if id(effect) not in in_one_line]
    for assumption, sharing in groupby(others, key=lambda effect: effect.assumption):
        foreseen = list(sharing)
        for effect in foreseen:
            yield _effect_line(effect, groups)
        if not all(effect.unprovable for effect in foreseen):
            yield f"  (80 % power{f', if {assumption}' if assumption else ''})"


def _find_many_slices(effects: Sequence[DetectableEffect]) -> list[list[DetectableEffect]]:
    """Return the comparisons by slice that share a line: those by one field, where it has many slices."""
    of_fields: dict[tuple[str, str], list[DetectableEffect]] = {}
    for effect in effects:
        if effect.contrast.slice:
            of_fields.setdefault((effect.contrast.metric, str(effect.contrast.by)), []).append(effect)
    return [of_field for of_field in of_fields.values() if len(of_field) > MOST_SLICES]


def _slices_lines(effects: Sequence[DetectableEffect]) -> Iterator[str]:
    """Yield the range of what the slices of a field can detect, and the power that it is about."""
    head = f"  {replace(effects[0].contrast, slice='').expression}, {len(effects)} slices"
    if effects[0].unprovable:
        yield f"{head}: {effects[0].unprovable}"
        return
    able = sorted(
        (effect for effect in effects if effect.detectable is not None), key=lambda effect: effect.detectable or 0
    )
    needed = [effect.needed for effect in effects if effect.needed is not None]
    parts = []
    if needed:
        contrast = effects[0].contrast
        what = "margin" if contrast.relevant is None else "the relevant"
        parts.append(f"{what} {contrast.limit_text} needs about n={max(needed):,} in each")
    if able:
        worst = _amount(able[-1]).removeprefix("differences ").removeprefix("ratios ")
        parts.append(f"can detect {_amount(able[0])} or more at best, {worst} or more at worst")
    few = len(effects) - len(able)
    if few and not needed:
        parts.append(f"{quantity(few, 'slice')} {'has' if few == 1 else 'have'} too few samples to detect a difference")
    yield f"{head}: {'; '.join(parts)}"
    yield "  (80 % power)"


def _effect_line(effect: DetectableEffect, groups: int | None) -> str:
    if effect.contrast.relevant is not None and effect.needed is not None:
        return _relevant_line(effect, effect.needed, groups)
    # A margin is decided by its bounds: what a test of a difference could detect says nothing of it.
    return _metric_line(effect, groups) if effect.needed is None else _margin_line(effect, groups)


def _relevant_line(effect: DetectableEffect, needed: int, groups: int | None) -> str:
    """Say whether the run resolves the relevant difference: it would detect one, and prove equal arms equivalent."""
    unit, symbol = ("samples", "n") if groups is None else ("groups", "groups")
    relevant = f"the relevant {effect.contrast.limit_text}"
    resolves = f"enough {unit} for {relevant}"
    if effect.units < needed:
        resolves = f"too few {unit} for {relevant}, which needs about {symbol}={needed:,}"
    detects = "" if effect.detectable is None else f"can detect {_amount(effect)} or more{_by_falls(effect)}; "
    return f"  {effect.contrast.expression}: {detects}{resolves}"


def _metric_line(effect: DetectableEffect, groups: int | None) -> str:
    if effect.unprovable:
        return f"  {effect.contrast.expression}: {effect.unprovable}"
    unit = "samples" if groups is None else "groups"
    detects = f"can detect {_amount(effect)} or more{_by_falls(effect)}"
    shown = f"too few {unit} to detect a difference" if effect.detectable is None else detects
    return f"  {effect.contrast.expression}: {shown}"


def _margin_line(effect: DetectableEffect, groups: int | None) -> str:
    symbol = "n" if groups is None else "groups"
    return f"  {effect.contrast.expression}: margin {effect.contrast.limit_text} needs about {symbol}={effect.needed:,}"


def _amount(effect: DetectableEffect) -> str:
    value = effect.detectable or 0.0
    if effect.unit == "ratio":
        return f"ratios of {math.exp(value):.3g}"
    return f"differences of {points(value) if effect.unit == 'points' else f'{value:.2g} {effect.unit}'.rstrip()}"


def _by_falls(effect: DetectableEffect) -> str:
    """Return the larger loss that is seen where replies fall from the best value to the worst; empty without one."""
    falls, spread = effect.detectable_falls, effect.detectable or 0.0
    return (
        "" if falls is None or falls <= spread else f", or losses of {falls:.2g} where replies fall from best to worst"
    )
