"""The prompt of an explained sample, each segment shaded by what it adds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.features.explanation.records import Explanation
from pytest_crucible.features.explanation.results import MetricResult
from pytest_crucible.features.explanation.segments import Segment, read_messages
from pytest_crucible.features.explanation.tables import value_text
from pytest_crucible.features.explanation.versions_table import shorten
from pytest_crucible.records.views import MarkedPart, MarkedText
from pytest_crucible.report.printable import AN_ID, printable_cell

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
