"""The samples most worth reading: where the candidate fell furthest behind a baseline, or simply did worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from pytest_crucible.analyse.analysis import main_metric
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Excerpt, View
from pytest_crucible.records.datasets import question_text
from pytest_crucible.records.reasoning import fold_reasoning
from pytest_crucible.sections.inputs import SectionInputs, no_claims

decides = False  # no claim of it can fail the session
claims = no_claims

# Enough to see a pattern, and few enough to read whole replies.
HOW_MANY = 5
# Characters of an id in JSON. A longer one is not pasted into `--crucible-sample`, and it would fill a log.
AN_ID = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstSample:
    """One sample with the candidate's score and reply."""

    sample: str
    metric: str
    value: float
    baseline_value: float | None
    reply: str
    input: str = ""
    expected: str = ""


def compute(inputs: SectionInputs) -> tuple[WorstSample, ...] | None:
    """Return up to HOW_MANY samples, worst first."""
    metric = main_metric(inputs.plan, inputs.scores)
    if metric is None:
        return None
    positions = _worst_positions(inputs, metric)
    samples, replies = inputs.stored.samples(positions), inputs.stored.replies(0, positions)
    scores = [arm.values for arm in inputs.scores[metric]]
    return (
        tuple(
            WorstSample(
                sample=samples[position].id,
                metric=metric,
                value=float(scores[0][position]),
                baseline_value=float(scores[1][position]) if len(scores) > 1 else None,
                reply=replies.get(position, ""),
                input=question_text(samples[position].input),
                expected=question_text(samples[position].expected),
            )
            for position in positions
            if position in samples
        )
        or None
    )


def view(samples: Sequence[WorstSample], claims: Sequence[Claim]) -> View:
    """Return an excerpt for each sample."""
    return View(
        title="Worst samples",
        excerpts=tuple(
            Excerpt(
                sample=sample.sample,
                reason=_reason(sample),
                text=fold_reasoning(sample.reply),
                input=sample.input,
                expected=sample.expected,
            )
            for sample in samples
        ),
        document=[{**asdict(sample), "sample": sample.sample[:AN_ID]} for sample in samples],
    )


def _worst_positions(inputs: SectionInputs, metric: str) -> list[int]:
    """Return positions, worst first. With a baseline only samples on which the candidate is behind it count."""
    sign = 1.0 if inputs.facts[metric].direction == "higher" else -1.0
    candidate, *baselines = (arm.values for arm in inputs.scores[metric])
    # A sample that the baseline lost has no difference: it counts as 0, and is left out.
    behind = np.nan_to_num(sign * (candidate - baselines[0])) if baselines else np.zeros_like(candidate)
    # numpy sorts by the last key first: furthest behind, then lowest score, then position.
    order = np.lexsort((np.arange(len(candidate)), sign * candidate, behind))
    is_shown = ~np.isnan(candidate) & (behind < 0 if baselines else True)
    return [int(position) for position in order[is_shown[order]][:HOW_MANY]]


def _reason(sample: WorstSample) -> str:
    baseline = "" if sample.baseline_value is None else f", baseline {sample.baseline_value:g}"
    return f"{sample.metric} = {sample.value:g}{baseline}"
