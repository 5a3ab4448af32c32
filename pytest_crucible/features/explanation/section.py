"""The section of explanations: a table for each sample, arm and metric, and the prompt with the replies to its versions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.features.explanation.records import VARIANT, Explanation, subject_of
from pytest_crucible.features.explanation.results import MetricResult, arm_scores, explain_metrics, numeric_metrics
from pytest_crucible.features.explanation.segments import Segment, read_messages
from pytest_crucible.features.explanation.tables import metric_tables, value_text
from pytest_crucible.features.explanation.versions_table import document_of, shorten, versions_table
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, View
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.records.views import MarkedPart, MarkedText
from pytest_crucible.report.printable import AN_ID, printable_cell
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


# Characters of a segment in a page: a reader sees how it begins and ends, and the run store has all.
A_SEGMENT = 1_000


def shaded_prompts(
    explanation: Explanation, arms: Sequence[str], results: Sequence[MetricResult], prompt: Any
) -> Iterator[MarkedText]:
    """Yield the prompt once for each metric and arm; none where no texts are stored, or redacted ones of other lengths."""
    # Before them may be the system prompt of the adapter, which always stays.
    messages = [] if prompt is None else read_messages(prompt)[-len(explanation.lengths) :]
    texts = [message.get("content") for message in messages]
    if tuple(len(text) if isinstance(text, str) else 0 for text in texts) != explanation.lengths:
        return
    for result in results:
        for name, attribution in zip(arms, result.arms, strict=True):
            name_of_sample = printable_cell(explanation.sample, AN_ID)
            yield MarkedText(
                title=f"{name_of_sample}, {name}, {result.facts.name}: what each segment adds",
                parts=tuple(_parts(explanation.segments[0], messages, attribution.shapley.tolist())),
            )


def _parts(
    segments: Sequence[Segment], messages: Sequence[Mapping[str, Any]], values: Sequence[float]
) -> Iterator[MarkedPart]:
    largest = max((abs(value) for value in values if not math.isnan(value)), default=0.0) or 1.0
    for number, message in enumerate(messages):
        text = message.get("content")
        yield MarkedPart(text=f"[{message.get('role', 'user')}] ")
        if not isinstance(text, str):
            yield MarkedPart(text="(not a text)\n")
            continue
        place = 0
        for k, segment in enumerate(segments):
            if segment.message == number:
                yield MarkedPart(text=shorten(text[place : segment.start], A_SEGMENT))
                part = text[segment.start : segment.end].rstrip()
                mark = f"{k + 1}: {value_text(values[k])}"
                weight = 0.0 if math.isnan(values[k]) else values[k] / largest
                yield MarkedPart(text=shorten(part, A_SEGMENT), mark=mark, weight=weight)
                # The blanks between two segments are not shaded.
                place = segment.start + len(part)
        yield MarkedPart(text=f"{shorten(text[place:], A_SEGMENT)}\n")
