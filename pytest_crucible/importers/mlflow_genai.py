"""Results of `mlflow.genai.evaluate`: its `result_df` as Parquet, JSON or CSV (https://mlflow.org/docs/latest/genai/eval-monitor/)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.importers.parse_cell import number
from pytest_crucible.importers.results import ParsedFile, Results, Row, number_repeats
from pytest_crucible.importers.source import Source
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.serialize import canonical

_VALUE, _ERROR = "/value", "/error_message"
_OWN = "mlflow."
Record = Mapping[str, Any]


def recognises(source: Source) -> bool:
    """Return whether the rows have traces, and values next to them. Tables of `mlflow.log_table` have none."""
    rows = source.records
    return bool(rows) and {"trace_id", "trace", "state"} <= set(rows[0]) and any(map(_is_value, rows[0]))


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the file: a result has no name. A trace is a sample, and inputs that recur are its repeats."""
    records, traces = source.records, [_trace(record) for record in source.records]
    metrics, left_out = _metrics(records, traces)
    rows = number_repeats([_row(record, trace, metrics) for record, trace in zip(records, traces, strict=True)])
    results = Results(
        task="mlflow",
        arm=source.path.stem,
        rows=rows,
        facts=_facts(records, metrics),
        repeats=max(row.repeat for row in rows) + 1,
    )
    notes = [f"{source.path.name}: the values of {name!r} are no single number or word, left out" for name in left_out]
    return ParsedFile(version="", results=[results], notes=notes)


def _is_value(column: Any) -> bool:
    # Cells beyond the header of a CSV file have the column None.
    return isinstance(column, str) and column.endswith(_VALUE)


def _trace(record: Record) -> Record:
    trace: Record = record["trace"] if isinstance(record["trace"], dict) else json.loads(record["trace"])
    return trace


def _assessments(trace: Record) -> Sequence[Record]:
    assessments: Sequence[Record] = trace["info"].get("assessments") or ()
    return assessments


def _metrics(records: Sequence[Record], traces: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Return the scorers, and those whose values are lists or mappings. Expectations are columns too, but measure nothing."""
    assessments = [one for trace in traces for one in _assessments(trace)]
    expected = {one["assessment_name"] for one in assessments if "expectation" in one}
    columns = dict.fromkeys(column for record in records for column in record if _is_value(column))
    names = [name for column in columns if (name := column.removesuffix(_VALUE)) not in expected]
    nested = [name for name in names if any(isinstance(record.get(name + _VALUE), list | dict) for record in records)]
    return [name for name in names if name not in nested], nested


def _row(record: Record, trace: Record, metrics: Sequence[str]) -> Row:
    """Return the row of a trace. Scorers run after a failed prediction, too: their scores without an output are lost."""
    root: Record = next((span for span in trace["data"]["spans"] if not span.get("parent_span_id")), {})
    inputs = json.loads(root.get("attributes", {}).get("mlflow.spanInputs", "null"))
    error = _error(root) if record["state"] == "ERROR" else ""
    return Row(
        sample=_name(inputs),
        input=inputs,
        expected=_read_expected(trace),
        metadata={name: tag for name, tag in (trace["info"].get("tags") or {}).items() if not name.startswith(_OWN)},
        error=error,
        **({} if error else _scores(record, trace, metrics)),
        reply=None if error else _reply(trace, root),
    )


def _name(inputs: Any) -> str:
    """Return the id of a sample, which MLflow does not have: its only input, or all of them as JSON."""
    only = next(iter(inputs.values())) if isinstance(inputs, dict) and len(inputs) == 1 else inputs
    return only if isinstance(only, str) and only else canonical(only)


def _error(root: Record) -> str:
    return str((root.get("status") or {}).get("message") or "the prediction failed").partition("\n")[0]


def _read_expected(trace: Record) -> Any:
    values = {
        one["assessment_name"]: one["expectation"].get("value") for one in _assessments(trace) if "expectation" in one
    }
    return values or None


def _scores(record: Record, trace: Record, metrics: Sequence[str]) -> dict[str, Any]:
    """Return values and losses. A scorer that gave no feedback does not apply; one whose feedback has no value lost it."""
    given = {one["assessment_name"] for one in _assessments(trace) if "feedback" in one}
    values = {name: _value(record.get(name + _VALUE)) for name in metrics}
    lost = {name: record.get(name + _ERROR) for name, value in values.items() if name in given and value is None}
    return {
        "scores": {name: value for name, value in values.items() if name not in lost},
        "lost": {name: error if isinstance(error, str) else "the scorer gave no value" for name, error in lost.items()},
    }


def _value(cell: Any) -> Value | None:
    parsed = number(cell)
    if parsed is None:
        return str(cell)
    return None if math.isnan(parsed) else parsed


def _reply(trace: Record, root: Record) -> Reply | None:
    outputs = root.get("attributes", {}).get("mlflow.spanOutputs")
    if outputs is None:
        return None
    output, about = json.loads(outputs), trace["info"].get("trace_metadata") or {}
    usage = json.loads(about.get("mlflow.trace.tokenUsage") or "{}")
    duration = trace["info"].get("execution_duration_ms")
    return Reply(
        text=output if isinstance(output, str) else canonical(output),
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        latency_s=None if duration is None else duration / 1000,
    )


def _facts(records: Sequence[Record], metrics: Sequence[str]) -> dict[str, MetricFacts]:
    """Return facts of scorers that answer yes or no: MLflow itself counts yes as passed."""
    values = {name: {type(_value(record.get(name + _VALUE))) for record in records} for name in metrics}
    rated = [name for name, types in values.items() if bool in types <= {bool, type(None)}]
    return {name: MetricFacts(name=name, low=0.0, high=1.0) for name in rated}
