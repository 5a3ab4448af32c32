"""The section of explanations: a table for each sample, arm and metric, and the prompt with the replies to its versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_crucible.features.explanation.records import VARIANT, Explanation, subject_of
from pytest_crucible.features.explanation.results import MetricResult, arm_scores, explain_metrics, numeric_metrics
from pytest_crucible.features.explanation.shaded_prompt import shaded_prompts
from pytest_crucible.features.explanation.tables import metric_tables
from pytest_crucible.features.explanation.versions_table import document_of, versions_table
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, View
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.sections.inputs import SectionInputs, no_claims

decides = False
claims = no_claims


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSample:
    """One sample with its results."""

    explanation: Explanation
    arms: tuple[str, ...]
    results: tuple[MetricResult, ...]
    replies: tuple[dict[tuple[int, int], str], ...]
    """By arm: the text of the reply to a set, by (number of the set, draw)."""
    prompt: Any
    """The first request of the candidate; None where no texts are stored."""


def compute(inputs: SectionInputs) -> tuple[ExplainedSample, ...] | None:
    """Return the results of each sample in the order of the plan; None where no version was planned."""
    stored = inputs.stored.decisions(subject_of(inputs.plan.nodeid))
    if not stored or VARIANT not in inputs.variants:
        return None
    arms = arm_scores(inputs.answers, inputs.variants)
    metrics = numeric_metrics(arms, inputs.facts)
    names = tuple(arm.name for arm in inputs.plan.arms)
    texts = [[inputs.stored.reply_texts(number, twin) for twin in (0, 1)] for number in range(len(names))]
    size = inputs.plan.draws(0).size
    samples, prompts = [], _first_prompts(inputs)
    for position, plain in sorted(stored.items()):
        explanation = from_plain(Explanation, plain)
        replies = tuple(
            {
                explanation.set_at(twin, place - twin * size): text
                for twin, of_twin in enumerate(of_arm)
                for (at, place), text in of_twin.items()
                if at == position
            }
            for of_arm in texts
        )
        results = tuple(explain_metrics(explanation, position, arms, metrics))
        samples.append(
            ExplainedSample(
                explanation=explanation, arms=names, results=results, replies=replies, prompt=prompts.get(position)
            )
        )
    return tuple(samples)


def _first_prompts(inputs: SectionInputs) -> dict[int, Any]:
    """Return the first request of the candidate for each sample, by position."""
    calls, forms = inputs.stored.calls(0), dict[int, int | None]()
    for position, member, form in zip(calls.positions, calls.members, calls.forms, strict=True):
        if not member:
            forms.setdefault(position, form)
    return {position: prompt for position, (prompt, _) in inputs.stored.first_prompts(forms).items()}


def view(samples: Sequence[ExplainedSample], claims: Sequence[Claim]) -> View:
    """Return the tables of each sample, and the replies to its versions."""
    tables = [
        table
        for sample in samples
        for result in sample.results
        for table in metric_tables(sample.explanation, sample.arms, result)
    ]
    tables += [versions_table(sample.explanation, sample.arms, sample.results, sample.replies) for sample in samples]
    document: list[Any] = [
        document_of(sample.explanation, sample.arms, sample.results, sample.replies) for sample in samples
    ]
    marked = (
        text
        for sample in samples
        for text in shaded_prompts(sample.explanation, sample.arms, sample.results, sample.prompt)
    )
    return View(title="Explanations", tables=tuple(tables), marked_texts=tuple(marked), document=document)
