"""Counts replies that were cut, withheld or empty, and how much of a difference comes from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding
from pytest_crucible.records import Contrast
from pytest_crucible.stats.number_format import quantity

ENDS = {"length": "cut", "content_filter": "withheld", "blocked": "blocked"}
EMPTY = "empty"
LEAST_SHARE = 0.25
"""Of a difference: below it, the replies' ends do not explain a verdict."""


def check_ends(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on replies that were cut, withheld or empty, if there are any."""
    counts = [count_ends(columns) for columns in inputs.arms]
    if not any(counts):
        return
    remarks = dict(_explanations(inputs))
    yield Finding(
        check="ends",
        cells=tuple(", ".join(f"{number:,} {end}" for end, number in of_arm.items()) or "0" for of_arm in counts),
        problem="; ".join(f"{subject}: {sentence}" for subject, sentence in remarks.items()),
        document=[dict(of_arm) for of_arm in counts],
        remarks=remarks,
    )


def count_ends(columns: ArmColumns) -> Counter[str]:
    """Return the number of replies with each unusual end."""
    ends = (end_of(finish, text) for finish, text in zip(columns.replies.finishes, columns.replies.texts, strict=True))
    return Counter(end for end in ends if end)


def end_of(finish: str, text: object) -> str:
    """Return the unusual end of a reply; empty for a usual one.

    >>> end_of("length", "It is"), end_of("stop", ""), end_of("stop", "4")
    ('cut', 'empty', '')
    """
    return ENDS.get(finish, EMPTY if text == "" else "")


def _explanations(inputs: CheckInputs) -> Iterator[tuple[str, str]]:
    """Yield the subject of each comparison in which the candidate loses by its replies' ends, and a sentence."""
    ends = [_end_by_sample(columns) for columns in inputs.arms]
    for contrast in inputs.plan.contrasts:
        baseline = [arm.name for arm in inputs.plan.arms].index(contrast.baseline)
        if sentence := _explain(inputs, contrast, baseline, ends[0], ends[baseline]):
            yield contrast.subject(inputs.plan.candidate.name), sentence


def _end_by_sample(columns: ArmColumns) -> dict[int, str]:
    replies = columns.replies
    ends = ((position, end_of(finish, text)) for position, finish, text in zip(
        replies.positions, replies.finishes, replies.texts, strict=True
    ))  # fmt: skip
    return {position: end for position, end in ends if end}


def _explain(
    inputs: CheckInputs, contrast: Contrast, baseline: int, ours: dict[int, str], theirs: dict[int, str]
) -> str:
    """Return how much of a loss lies on samples where only the candidate's reply was cut, withheld or empty."""
    scores = inputs.section.scores.get(contrast.metric)
    positions = sorted(ours.keys() - theirs.keys())
    if scores is None or contrast.statistic != "mean" or not positions:
        return ""
    sign = -1.0 if inputs.section.facts[contrast.metric].direction == "lower" else 1.0
    loss = sign * (scores[baseline].values - scores[0].values)
    both = ~np.isnan(loss)
    whole = float(loss[both].sum())
    part = float(np.nansum(loss[positions]))
    is_share = bool(((scores[0].values[both] >= 0) & (scores[0].values[both] <= 1)).all())
    if whole <= 0 or part < LEAST_SHARE * whole or not is_share:
        return ""
    return _loss_sentence(inputs, part, whole, int(both.sum()), Counter(ours[position] for position in positions))


def _loss_sentence(inputs: CheckInputs, part: float, whole: float, samples: int, ends: Counter[str]) -> str:
    """Return `15.0 of the 24.2 lost points are replies cut at max_tokens = 64`, for losses in points of 0 to 1."""
    most = ends.most_common(1)[0][0]
    limit = inputs.plan.candidate.parameters.get("max_tokens") if most == "cut" else None
    lost = f"{100 * part / samples:.1f} of the {100 * whole / samples:.1f} lost points"
    where = quantity(ends.total(), "sample")
    at = "" if limit is None else f" at max_tokens = {limit}"
    return f"{lost} are on {where} where only the reply of {inputs.plan.candidate.name} was {most}{at}"
