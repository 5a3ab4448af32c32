"""Results of Ragas: the table of `evaluate(...).to_pandas()` as JSON lines, JSON, CSV or Parquet (https://docs.ragas.io)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.importers.columns import USUAL
from pytest_crucible.importers.parse_cell import number
from pytest_crucible.importers.results import ParsedFile, Results, Row, number_repeats
from pytest_crucible.importers.source import Source
from pytest_crucible.records import Direction, MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical

# The columns of a sample, of one turn or of several: all others are metrics.
_SAMPLE = frozenset(
    {"user_input", "response", "multi_responses", "reference", "retrieved_contexts", "reference_contexts", "rubrics"}
    | {"retrieved_context_ids", "reference_context_ids", "persona_name", "query_style", "query_length"}
    | {"reference_tool_calls", "reference_topics"}
)
# The columns of other tables that have a user's input, too.
_OF_OTHERS = {*USUAL["sample"], *USUAL["arm"], *USUAL["metric"], *USUAL["repeat"], *USUAL["task"]} - _SAMPLE
# Metrics of Ragas itself from 0 to 1, where more is better; and its only one where less is.
_SHARES = frozenset(
    {"agent_goal_accuracy", "answer_correctness", "answer_relevancy", "answer_similarity", "bleu_score", "chrf_score"}
    | {"context_entity_recall", "context_precision", "context_recall", "context_utilization", "exact_match"}
    | {"factual_correctness", "faithfulness", "id_based_context_precision", "id_based_context_recall"}
    | {"llm_context_precision_with_reference", "llm_context_precision_without_reference", "rouge_score"}
    | {"non_llm_context_precision_with_reference", "non_llm_context_recall", "non_llm_string_similarity"}
    | {"nv_accuracy", "nv_context_relevance", "nv_response_groundedness", "semantic_similarity", "string_present"}
    | {"summary_score", "tool_call_accuracy", "tool_call_f1", "topic_adherence"}
)
_FAULTS = frozenset({"noise_sensitivity"})
Record = Mapping[str, Any]


def recognises(source: Source) -> bool:
    """Return whether the first column is a user's input, another is of a sample too, and none names samples or arms."""
    # Cells beyond the header of a CSV file have the column None.
    names = [*map(str, (source.records or [{}])[0])]
    return (
        names[:1] == ["user_input"] and len(_SAMPLE & set(names)) > 1 and _OF_OTHERS.isdisjoint(map(str.lower, names))
    )


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the file: a result has no name. A user's input that recurs is a repeat of its sample."""
    records = source.records
    metrics = [name for name in dict.fromkeys(name for record in records for name in record) if name not in _SAMPLE]
    if not metrics:
        raise SpecError(
            f"{source.path} has samples but no scores: write the table that `evaluate(...).to_pandas()` returns"
        )
    rows = number_repeats(_rename([_row(record, metrics) for record in records]))
    results = Results(
        task="ragas",
        arm=source.path.stem,
        rows=rows,
        facts=_facts(metrics),
        repeats=max(row.repeat for row in rows) + 1,
    )
    return ParsedFile(version="", results=[results])


def _row(record: Record, metrics: Sequence[str]) -> Row:
    """Return the row of a sample. Ragas writes NaN if a metric failed."""
    values = {name: _value(record.get(name)) for name in metrics}
    response = record.get("response")
    return Row(
        sample=_text(record["user_input"]),
        scores={name: value for name, value in values.items() if value is not None},
        lost={name: "the metric gave no value" for name, value in values.items() if value is None},
        reply=Reply(text=_text(response)) if response is not None else None,
        input=record["user_input"],
        expected=record.get("reference"),
    )


def _rename(rows: Sequence[Row]) -> Sequence[Row]:
    """Return rows where samples that share their input, but not their reference, have names of their own."""
    references: dict[str, set[str]] = {}
    for row in rows:
        references.setdefault(row.sample, set()).add(canonical(row.expected))
    return [
        replace(row, sample=canonical([row.sample, row.expected])) if len(references[row.sample]) > 1 else row
        for row in rows
    ]


def _value(cell: Any) -> Value | None:
    parsed = number(cell)
    if parsed is None:
        return str(cell)
    return None if math.isnan(parsed) else parsed


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def _facts(metrics: Iterable[str]) -> dict[str, MetricFacts]:
    """Return facts of Ragas' own metrics. Their mode is in brackets: `factual_correctness(mode=f1)`."""
    facts: dict[str, MetricFacts] = {}
    for name in metrics:
        plain = name.partition("(")[0]
        if plain in _SHARES | _FAULTS:
            direction: Direction = "lower" if plain in _FAULTS else "higher"
            facts[name] = MetricFacts(name=name, direction=direction, low=0.0, high=1.0)
    return facts
