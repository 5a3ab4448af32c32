"""The rows of a list of samples that a browser has in view, as JSON. All numbers are texts, as elsewhere in reports."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.features.view.samples.index import STATES, SampleIndex
from pytest_crucible.features.view.samples.indexes import IndexedSamples
from pytest_crucible.features.view.samples.select import ListState, gains, shown_arms
from pytest_crucible.records import Plan, Sample
from pytest_crucible.records.datasets import question_text
from pytest_crucible.records.reasoning import fold_reasoning
from pytest_crucible.report.html import excerpt_line
from pytest_crucible.report.printable import AN_ID, printable_cell
from pytest_crucible.stats.number_format import seconds
from pytest_crucible.store.outcomes import reply_texts
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import samples

_PART = 25
"""Samples whose texts are in memory together: a reply may have megabytes, and a row shows its beginning."""


def list_rows(listed: IndexedSamples, state: ListState, positions: Sequence[int]) -> list[dict[str, Any]]:
    """Return the rows of the samples at some positions, in that order."""
    store, key, plan = listed.of.store, listed.of.key, listed.of.plan
    facts = _ScoreTexts(store, key, listed.index, state, positions)
    return [
        {"position": position, **texts, **facts.of_sample(position)}
        for position, texts in zip(positions, _sample_texts(store, key, plan, positions), strict=True)
    ]


def _sample_texts(store: RunStore, key: int, plan: Plan, positions: Sequence[int]) -> Iterator[dict[str, str]]:
    for start in range(0, len(positions), _PART):
        part = positions[start : start + _PART]
        of_samples, replies = samples(store, plan.dataset_sha256, part), reply_texts(store, key, 0, part)
        yield from (_texts(of_samples[position], replies.get(position, "")) for position in part)


def _texts(sample: Sample, reply: str) -> dict[str, str]:
    return {
        "id": printable_cell(sample.id, AN_ID),
        "group": printable_cell(sample.group or "", AN_ID),
        "prompt": excerpt_line(question_text(sample.input)),
        "reply": excerpt_line(fold_reasoning(reply)),
    }


class _ScoreTexts:
    """The scores, differences and latencies of samples as texts."""

    def __init__(
        self, store: RunStore, key: int, index: SampleIndex, state: ListState, positions: Sequence[int]
    ) -> None:
        self.index, self.metric = index, state.metric
        self.arms, self.gains = shown_arms(index, state), gains(index, state)
        is_text = state.metric in index.facts and index.facts[state.metric].kind == "text"
        self.labels = {arm: _labels(store, key, arm, state.metric, positions) for arm in self.arms} if is_text else {}

    def of_sample(self, position: int) -> dict[str, Any]:
        """Return the texts of one sample."""
        gain, latency = float(self.gains[position]), float(self.index.latency_s[0][position])
        return {
            "scores": [self._score(arm, position) for arm in self.arms],
            "states": [STATES[self.index.states[arm][position]] for arm in self.arms],
            "difference": "" if math.isnan(gain) or self.labels else f"{gain:+g}" if gain else "0",
            "gain": None if math.isnan(gain) or (gain and self.labels) else (gain > 0) - (gain < 0),
            "latency": "" if math.isnan(latency) else seconds(latency),
        }

    def _score(self, arm: int, position: int) -> str:
        """Return a score, or why there is none: what is unknown is not 0."""
        column = self.index.metrics[self.metric][arm] if self.metric in self.index.metrics else None
        if column is not None and not math.isnan(column.values[position]):
            return self.labels[arm].get(position, "") if self.labels else f"{column.values[position]:g}"
        if column is None or STATES[self.index.states[arm][position]] != "answered":
            return ""
        return "lost" if column.lost[position] else "not applicable"


def _labels(store: RunStore, key: int, arm: int, metric: str, positions: Sequence[int]) -> Mapping[int, str]:
    """Return the texts of a metric about the first replies to some samples."""
    query = """
        SELECT observations.position, observations.label FROM observations JOIN arms ON arms.id = observations.arm
        WHERE arms.experiment = :experiment AND arms.number = :arm AND observations.position IN (:positions)
            AND observations.epoch = 0 AND observations.metric = :metric AND observations.label IS NOT NULL
    """
    rows = store.rows(query, experiment=key, arm=arm, metric=metric, positions=positions)
    return {position: printable_cell(label, AN_ID) for position, label in rows}
