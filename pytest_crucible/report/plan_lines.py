"""Lines that a session prints before and while it runs: the plan of each experiment, an estimate of its cost, its progress."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pytest_crucible.records import DetectableEffect, Plan
from pytest_crucible.records.plan import EQUAL_INPUTS
from pytest_crucible.report.printable import printable_cell
from pytest_crucible.stats.number_format import points, quantity

# Not the terminal's width: plans are also read in CI logs and on pages, and tests compare them.
WIDTH = 80


def announcement(
    plan: Plan,
    foresight: Sequence[DetectableEffect],
    not_queried: Sequence[str] = (),
    *,
    further: Sequence[str] = (),
    replayed: bool = False,
) -> str:
    """Return lines of at most 80 columns: arms and samples, then each metric, then parts without requests.

    `crucible: test_math: v2 vs v1, 200 samples x 2 arms = 400 replies`, and below it
    `  accuracy: can detect differences of 8.8 points or more`. `further` are lines of features.
    """
    name = plan.nodeid.partition("::")[2]
    arms = " vs ".join(arm.name for arm in plan.arms)
    lines = [f"crucible: {name}: {arms}, {_size(plan)}"]
    lines += equal_input_lines(plan)
    first = [effect for effect in foresight if effect.contrast.baseline == foresight[0].contrast.baseline]
    lines += effect_lines(first, plan.groups)
    lines += [f"  {line}" for line in further]
    if not_queried:
        lines.append(f"  {', '.join(not_queried)} not queried: the test compares nothing (@pytest.mark.ab_compare)")
    if replayed:
        lines.append("  no model is called: replies come from the reply cache")
    wrap = textwrap.TextWrapper(WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(wrap.fill(printable_cell(line)) for line in lines)


def equal_input_lines(plan: Plan) -> Iterator[str]:
    """Yield why a plan has its groups, where equal inputs have made some of them."""
    equal = EQUAL_INPUTS.of(plan)
    if equal is not None:
        joined = f", which joins {equal.declared:,} declared groups" if equal.declared else ""
        yield (
            f"  {plan.groups or 0:,} groups, because {equal.samples:,} of the samples have only {equal.questions:,} different "
            f"inputs: equal inputs are one group{joined} (crucible_equal_inputs)"
        )


def _size(plan: Plan) -> str:
    samples = quantity(plan.selected, "sample")
    if plan.selected < plan.planned:
        samples = f"{plan.selected:,} of {plan.planned:,} samples"
    if plan.groups is not None:
        samples += f" in {plan.groups:,} groups"
    draws = plan.draws(0)
    if draws.prompts > 1:
        samples += f" x {draws.prompts} prompts"
    trainings = [plan.draws(number).trainings for number in range(len(plan.arms))]
    # Where arms differ, the total below is not the product.
    if draws.trainings > 1 and len(set(trainings)) == 1:
        samples += f" x {draws.trainings} trainings"
    if draws.repeats > 1:
        samples += f" x {draws.repeats} repeats"
    if draws.rounds > 1:
        samples += f" x {draws.rounds} rounds"
    if plan.variants:
        samples += f", as they are and in {quantity(len(plan.variants), 'variant')}"
    arm_count, total = sum(arm.stored_run is None for arm in plan.arms), plan.count_new_replies()
    *first, last = map(str, trainings)
    of_trainings = f" x arms of {', '.join(first)} and {last} trainings"
    arms = f" x {arm_count} arms" if len(set(trainings)) == 1 else of_trainings
    if arm_count < 2 and not plan.variants:
        return samples
    return f"{samples}{arms if arm_count > 1 else ''} = {total:,} replies"


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
    if effect.needed is None:
        return _metric_line(effect, groups)
    symbol = "n" if groups is None else "groups"
    return f"  {effect.contrast.expression}: margin {effect.contrast.limit_text} needs about {symbol}={effect.needed:,}"


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
    finding = f"too few {unit} to detect a difference" if effect.detectable is None else detects
    return f"  {effect.contrast.expression}: {finding}"


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


def progress_text(name: str, done: int, total: int, lost: int, seconds: float, waits_for: str = "") -> str:
    """Return the line: samples done and lost, the rate and the time left, or the cause of a wait.

    >>> progress_text("test_math", 500, 2000, 3, 2.0)
    'test_math  500/2,000  3 lost  250/s  6 s left'
    """
    rate = done / seconds if seconds > 0 else 0.0
    parts = [name, f"{done:,}/{total:,}"]
    if lost:
        parts.append(f"{lost:,} lost")
    if waits_for:
        parts.append(waits_for)
    elif rate:
        parts += [f"{rate:,.0f}/s" if rate >= 1 else f"{rate:.2g}/s", f"{_duration((total - done) / rate)} left"]
    return "  ".join(parts)


def log_line(progress: str, *, refused: float, waiting: float, waits_for: str, seconds_left: float | None) -> str:
    """Return a line of a log: progress, the shares of refused requests and of time waited, the cause of a wait, and the end.

    >>> log_line("test_math  120/300", refused=0.15, waiting=0.61, waits_for="", seconds_left=40.0)
    'test_math  120/300  15 % of requests refused  61 % of the time waiting  40 s left'
    """
    parts = [progress]
    if refused:
        parts.append(f"{100 * refused:.0f} % of requests refused")
    if waiting >= 0.01:
        parts.append(f"{100 * waiting:.0f} % of the time waiting")
    if waits_for:
        parts.append(waits_for)
    parts.append("end unknown" if seconds_left is None else f"{_duration(seconds_left)} left")
    return "  ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, _ = divmod(round(seconds), 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.0f} h"


class ProgressLine:
    """Rewrites the line below the cursor, and moves the cursor back at the end, so that pytest's own output stays.

    `column` is the cursor's position on pytest's own line.
    """

    def __init__(self, write: Callable[[str], None], *, width: int, column: int) -> None:
        self._write = write
        # A line as wide as the terminal would wrap, and the cursor would not come back.
        self._width = width - 1
        self._column = column
        self._started = time.perf_counter()
        self._shown = False

    def show(self, name: str, done: int, total: int, lost: int, waits_for: str = "") -> None:
        text = progress_text(name, done, total, lost, time.perf_counter() - self._started, waits_for)
        below = "" if self._shown else "\n"
        self._write(f"{below}\r{text[: self._width]:<{self._width}}")
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            # One line up, to the column where pytest was writing.
            self._write(f"\r{'':<{self._width}}\x1b[1A\x1b[{self._column + 1}G")
            self._shown = False
