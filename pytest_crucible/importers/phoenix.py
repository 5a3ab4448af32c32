"""Experiments of Phoenix: the JSON or CSV that its server exports (https://arize.com/docs/phoenix/datasets-and-experiments)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pytest_crucible.importers.parse_cell import number
from pytest_crucible.importers.results import ParsedFile, Results, Row
from pytest_crucible.importers.source import Source
from pytest_crucible.records import Reply, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical

# Columns of the CSV that may be empty; the reader of CSV leaves empty cells out.
_OPTIONAL = ("output", "error", "prompt_token_count", "completion_token_count")
_ANNOTATION, _KIND = "annotation_", "_annotator_kind"
Record = Mapping[str, Any]


def recognises(source: Source) -> bool:
    """Return whether the rows are runs of a dataset's examples."""
    return {"example_id", "repetition_number", "reference_output", "latency_ms"} <= set((source.records or [{}])[0])


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the file: an export does not name its experiment. An annotation's name is a metric."""
    records = source.records if source.rows is None else [_parse_csv(record) for record in source.records]
    metrics = tuple(dict.fromkeys(one["name"] for record in records for one in record["annotations"]))
    if not metrics:
        raise SpecError(
            f"{source.path} is an experiment without annotations: run Phoenix's evaluators, and export it again"
        )
    rows = [_row(record, metrics) for record in records]
    results = Results(task="phoenix", arm=source.path.stem, rows=rows, repeats=max(row.repeat for row in rows) + 1)
    return ParsedFile(version="", results=[results])


def _parse_csv(record: Record) -> Record:
    """Return a row of the CSV as the JSON has it. Only the CSV has the metadata of examples."""
    names = [
        column.removeprefix(_ANNOTATION).removesuffix(_KIND)
        for column, cell in record.items()
        if column.startswith(_ANNOTATION) and column.endswith(_KIND) and cell
    ]
    fields = ("label", "score", "error")
    return {
        **dict.fromkeys(_OPTIONAL),
        **record,
        **{name: json.loads(record[name]) for name in ("input", "reference_output", "metadata")},
        "annotations": [
            {"name": name, **{field: record.get(f"{_ANNOTATION}{name}_{field}") for field in fields}} for name in names
        ],
    }


def _row(record: Record, metrics: tuple[str, ...]) -> Row:
    """Return the row of a run. Evaluators see failed runs, too: their scores without an output are lost."""
    error = str(record["error"] or "").partition("\n")[0]
    annotations = {} if error else {one["name"]: one for one in record["annotations"]}
    values = {name: _value(annotations.get(name, {})) for name in ([] if error else metrics)}
    return Row(
        sample=record["example_id"],
        repeat=int(record["repetition_number"]) - 1,
        error=error,
        scores={name: value for name, value in values.items() if value is not None},
        lost={name: _reason(annotations.get(name, {})) for name, value in values.items() if value is None},
        reply=None if error else _reply(record),
        input=record["input"],
        expected=record["reference_output"],
        metadata=record.get("metadata") or {},
    )


def _value(annotation: Record) -> Value | None:
    """Return the score of an annotation, or else its label; None for an evaluator that failed or did not run."""
    score, label = _number(annotation.get("score")), annotation.get("label")
    return None if annotation.get("error") else (label or None) if score is None else score


def _reason(annotation: Record) -> str:
    return str(annotation.get("error") or "the evaluator gave no value").partition("\n")[0]


def _reply(record: Record) -> Reply:
    output, milliseconds = record["output"], _number(record["latency_ms"])
    return Reply(
        text=output if isinstance(output, str) else canonical(output),
        input_tokens=_count(record["prompt_token_count"]),
        output_tokens=_count(record["completion_token_count"]),
        latency_s=None if milliseconds is None else milliseconds / 1000,
    )


def _count(cell: Any) -> int | None:
    value = _number(cell)
    return None if value is None else int(value)


def _number(cell: Any) -> float | None:
    value = number(cell)
    return None if value is None or math.isnan(value) else float(value)
