"""The section of explanations: tables for each sample, arm and metric, and of versions, with the prompt and the replies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.features.explanation.records import VARIANT, Explanation, subject_of
from pytest_crucible.features.explanation.results import (
    MetricResult,
    arm_scores,
    explain_metrics,
    numeric_metrics,
    plain_number,
)
from pytest_crucible.features.explanation.segments import Segment, read_messages
from pytest_crucible.features.explanation.tables import metric_tables, score_text, value_text, verdict_text
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Row, Table, View
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.records.views import MarkedPart, MarkedText
from pytest_crucible.report.printable import AN_ID, printable_cell
from pytest_crucible.sections.inputs import SectionInputs, no_claims
from pytest_crucible.stats.attribution.deletion import DeletionCurve
from pytest_crucible.stats.attribution.values import Attribution

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


Replies = Mapping[tuple[int, int], str]
A_REPLY = 280
"""Characters of a reply in a table."""
A_TEXT = 20_000
"""Characters of a reply in JSON; the run store has all."""


def shorten(text: str, most: int) -> str:
    """Return a text without its middle, if it is longer than so many characters.

    >>> shorten("a" * 30 + "b" * 30, 10)
    'aaaaa ... (50 characters more) ... bbbbb'
    """
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... ({len(text) - 2 * half:,} characters more) ... {text[len(text) - half :]}"


def versions_table(
    explanation: Explanation, arms: Sequence[str], results: Sequence[MetricResult], replies: Sequence[Replies]
) -> Table:
    """Return a row for each version and draw, with the scores and the reply of each arm."""
    sets, many = explanation.sets, explanation.sets.repeats > 1
    metrics = [
        f"{result.facts.name}, {name}" if len(arms) > 1 else result.facts.name for result in results for name in arms
    ]
    heads = ("left out", *(["draw"] if many else []), *metrics, *(f"reply of {name}" for name in arms))
    rows = []
    for number in range(len(sets.masks)):
        segments = ", ".join(map(str, explanation.left_out(number))) or "nothing"
        for draw in range(sets.repeats):
            scores = [score_text(table[number, draw]) for result in results for table in result.tables]
            texts = [shorten(of_arm.get((number, draw), "(no reply)"), A_REPLY) for of_arm in replies]
            rows.append(Row(cells=(segments, *([str(draw + 1)] if many else []), *scores, *texts)))
    title = f"{printable_cell(explanation.sample, AN_ID)}: the reply to each version"
    return Table(title=title, heads=heads, rows=tuple(rows), numbers=tuple(metrics), verbosity=3)


def document_of(
    explanation: Explanation, arms: Sequence[str], results: Sequence[MetricResult], replies: Sequence[Replies]
) -> dict[str, Any]:
    """Return all values of a sample as plain data."""
    sets = explanation.sets
    return {
        "sample": explanation.sample,
        "segments_by": explanation.kind,
        "segments": [
            {"number": number, **segment._asdict()} for number, segment in enumerate(explanation.segments[0], start=1)
        ],
        "is_random": sets.is_random,
        "draws": sets.repeats,
        "metrics": {result.facts.name: _metric(arms, result) for result in results},
        "versions": [_version(explanation, number, arms, results, replies) for number in range(len(sets.masks))],
    }


def _metric(arms: Sequence[str], result: MetricResult) -> dict[str, Any]:
    columns = zip(arms, result.arms, result.lost, result.inapplicable, result.curves, strict=True)
    return {
        "arms": {
            name: {
                **_attribution(attribution),
                "lost": lost,
                "not_applicable": inapplicable,
                "deletion": _curve(curve),
            }
            for name, attribution, lost, inapplicable, curve in columns
        },
        "differences": {
            name: _attribution(attribution) for name, attribution in zip(arms[1:], result.differences, strict=True)
        },
    }


def _version(
    explanation: Explanation,
    number: int,
    arms: Sequence[str],
    results: Sequence[MetricResult],
    replies: Sequence[Replies],
) -> dict[str, Any]:
    return {
        "left_out": explanation.left_out(number),
        "scores": {
            result.facts.name: {
                name: [plain_number(score) for score in table[number]]
                for name, table in zip(arms, result.tables, strict=True)
            }
            for result in results
        },
        "replies": {
            name: [_reply(of_arm.get((number, draw))) for draw in range(explanation.sets.repeats)]
            for name, of_arm in zip(arms, replies, strict=True)
        },
    }


def _reply(text: str | None) -> str | None:
    return None if text is None else shorten(text, A_TEXT)


def _attribution(attribution: Attribution) -> dict[str, Any]:
    return {
        "whole": plain_number(attribution.whole),
        "empty": plain_number(attribution.empty),
        "is_exact": attribution.is_exact,
        "requests": attribution.requested,
        "missing": attribution.missing,
        **{
            name: [plain_number(value) for value in getattr(attribution, name)]
            for name in ("shapley", "low", "high", "left_out")
        },
        "interactions": [
            {"segments": [i + 1, j + 1], "value": plain_number(value)} for i, j, value in attribution.interactions
        ],
    }


def _curve(curve: DeletionCurve) -> dict[str, Any]:
    return {
        "order": [segment + 1 for segment in curve.order],
        "removed": list(curve.removed),
        **{
            name: [plain_number(value) for value in getattr(curve, name)]
            for name in ("curve", "random_mean", "random_low", "random_high")
        },
        "random_orders": curve.random_orders,
        "p": curve.p,
        "verdict": verdict_text(curve),
    }
