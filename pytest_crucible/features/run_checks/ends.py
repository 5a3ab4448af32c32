"""Counts replies that were cut, withheld or empty, and how much of a difference comes from them.

Where a test returns something else than a reply, such as a score, or nothing, as a joined test does, its calls show the ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding
from pytest_crucible.records import Arm, Contrast
from pytest_crucible.stats.number_format import quantity

ENDS = {"length": "cut", "content_filter": "withheld", "blocked": "blocked"}
EMPTY = "empty"
TOOL_CALLS = ("tool_calls", "tool_use", "function_call")
LEAST_SHARE = 0.25
"""Of a difference: below it, the replies' ends do not explain a verdict."""


def check_ends(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on replies that were cut, withheld or empty, if there are any."""
    counts = [count_ends(columns) for columns in inputs.arms]
    if not any(counts):
        return
    remarks = dict(_explanations(inputs))
    problems = [f"{subject}: {sentence}" for subject, sentence in remarks.items()]
    problems += [
        f"{of_arm['cut']:,} of {quantity(len(columns.replies.texts), 'reply')} of {columns.arm.name} were cut"
        f"{_limit(columns.arm)}: verdicts are mostly about this limit"
        for columns, of_arm in zip(inputs.arms, counts, strict=True)
        if 2 * of_arm["cut"] > len(columns.replies.texts)
    ]
    yield Finding(
        check="ends",
        cells=tuple(_cell(columns, of_arm) for columns, of_arm in zip(inputs.arms, counts, strict=True)),
        problem="; ".join(problems),
        document=[dict(of_arm) for of_arm in counts],
        remarks=remarks,
    )


def _cell(columns: ArmColumns, counts: Counter[str]) -> str:
    """Return `2 cut, 1 empty`; 0 where no reply ended so, and empty for an arm whose replies' ends are not known."""
    usual = "0" if any(end is not None for _, end in unit_ends(columns)) else ""
    return ", ".join(f"{number:,} {end}" for end, number in counts.items()) or usual


def count_ends(columns: ArmColumns) -> Counter[str]:
    """Return the number of replies with each unusual end."""
    return Counter(end for _, end in unit_ends(columns) if end)


def unit_ends(columns: ArmColumns) -> Iterator[tuple[int, str | None]]:
    """Yield, for each reply, its position and its unusual end: empty for a usual one, None where it is not known."""
    replies, calls = columns.replies, columns.calls
    rows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in columns.own_calls:
        rows[calls.positions[row], calls.repeats[row]].append(row)
    for position, repeat, finish, text in zip(
        replies.positions, replies.repeats, replies.finishes, replies.texts, strict=True
    ):
        of_unit = rows.get((position, repeat), ())
        is_returned = not of_unit or (finish and any(calls.texts[row] == text for row in of_unit))
        end = None if is_returned else _end_of_calls(columns, of_unit)
        yield position, end_of(finish, text) if is_returned or (finish and end is None) else end


def _end_of_calls(columns: ArmColumns, rows: Sequence[int]) -> str | None:
    """Return the first unusual end of the calls of a unit; None if none of them is known."""
    calls = columns.calls
    ends = [(finish, calls.texts[row]) for row in rows if (finish := calls.finishes[row]) is not None]
    return next(filter(None, (end_of(*end) for end in ends)), "") if ends else None


def end_of(finish: str, text: object) -> str:
    """Return the unusual end of a reply; empty for a usual one. A call of a tool has no text.

    >>> end_of("length", "It is"), end_of("stop", ""), end_of("stop", "4")
    ('cut', 'empty', '')
    """
    return ENDS.get(finish, EMPTY if text == "" and finish not in TOOL_CALLS else "")


def _explanations(inputs: CheckInputs) -> Iterator[tuple[str, str]]:
    """Yield the subject of each comparison whose difference comes from the replies' ends, and a sentence."""
    ends = [{position: end for position, end in unit_ends(columns) if end} for columns in inputs.arms]
    for contrast in inputs.plan.contrasts:
        baseline = [arm.name for arm in inputs.plan.arms].index(contrast.baseline)
        if sentence := _explain(inputs, contrast, baseline, ends[0], ends[baseline]):
            yield contrast.subject(inputs.plan.candidate.name), sentence


def _explain(
    inputs: CheckInputs, contrast: Contrast, baseline: int, ours: dict[int, str], theirs: dict[int, str]
) -> str:
    """Return how much of a difference lies on samples where only the worse arm's reply was cut, withheld or empty."""
    scores = inputs.section.scores.get(contrast.metric)
    if scores is None or contrast.statistic != "mean" or not ours.keys() ^ theirs.keys():
        return ""
    sign = -1.0 if inputs.section.facts[contrast.metric].direction == "lower" else 1.0
    loss = sign * (scores[baseline].values - scores[0].values)
    both = ~np.isnan(loss)
    is_share = bool(((scores[0].values[both] >= 0) & (scores[0].values[both] <= 1)).all())
    whole = float(loss[both].sum())
    worse, ends, others = (0, ours, theirs) if whole > 0 else (baseline, theirs, ours)
    positions = sorted(ends.keys() - others.keys())
    part = float(np.nansum(loss[positions]))
    if not whole or part / whole < LEAST_SHARE or not is_share:
        return ""
    counts = Counter(ends[position] for position in positions)
    return _loss_sentence(inputs.arms[worse].arm, part, whole, int(both.sum()), counts)


def _loss_sentence(worse: Arm, part: float, whole: float, samples: int, ends: Counter[str]) -> str:
    """Return `15.0 of the 24.2 lost points are on ...`, for losses of the candidate in points of 0 to 1; else `gained`."""
    here, total, verb, opposite = abs(part) / samples, abs(whole) / samples, "lost", "gained"
    if whole < 0:
        verb, opposite = opposite, verb
    kinds = [end for end, _ in ends.most_common()]
    where = f"on {quantity(ends.total(), 'sample')} where only the reply of {worse.name} was {' or '.join(kinds)}"
    where += _limit(worse) if kinds[0] == "cut" else ""
    if here > total:
        return (
            f"{100 * here:.1f} points are {verb} {where}, and {100 * (here - total):.1f} are {opposite} on the others"
        )
    return f"{100 * here:.1f} of the {100 * total:.1f} {verb} points are {where}"


def _limit(arm: Arm) -> str:
    limit = arm.parameters.get("max_tokens")
    return "" if limit is None else f" at max_tokens = {limit}"
