"""Results of LangSmith: the table of `evaluate(...).to_pandas()` as CSV or JSON (https://docs.langchain.com/langsmith/evaluation)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.importers.parse_cell import number
from pytest_crucible.importers.results import ParsedFile, Results, Row, number_repeats
from pytest_crucible.importers.source import Source
from pytest_crucible.records import Reply, Value
from pytest_crucible.records.serialize import canonical

_INPUT, _OUTPUT, _REFERENCE, _FEEDBACK = "inputs.", "outputs.", "reference.", "feedback."
Record = Mapping[str, Any]


def recognises(source: Source) -> bool:
    """Return whether the rows are runs of examples with feedback."""
    names = set((source.records or [{}])[0])
    # Cells beyond the header of a CSV file have the column None.
    return {"example_id", "execution_time"} <= names and any(str(name).startswith(_FEEDBACK) for name in names)


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the file. An example is a sample, and its further runs are its repeats."""
    records = source.records
    names = dict.fromkeys(name for record in records for name in record if name.startswith(_FEEDBACK))
    rows = number_repeats([_row(record, list(names)) for record in records])
    results = Results(task="langsmith", arm=source.path.stem, rows=rows, repeats=max(row.repeat for row in rows) + 1)
    return ParsedFile(version="", results=[results])


def _row(record: Record, feedback: Sequence[str]) -> Row:
    """Return the row of a run. Evaluators see failed runs, too: their scores without an output are lost."""
    error = str(record.get("error") or "").partition("\n")[0]
    values = {} if error else {name.removeprefix(_FEEDBACK): _value(record.get(name)) for name in feedback}
    return Row(
        sample=str(record["example_id"]),
        error=error,
        scores={name: value for name, value in values.items() if value is not None},
        lost={name: "the evaluator gave no value" for name, value in values.items() if value is None},
        reply=None if error else _reply(record),
        input=_part(record, _INPUT),
        expected=_part(record, _REFERENCE) or None,
    )


def _value(cell: Any) -> Value | None:
    parsed = number(cell)
    if parsed is None:
        return str(cell)
    return None if math.isnan(parsed) else parsed


def _part(record: Record, prefix: str) -> dict[str, Any]:
    """Return the columns of one kind that have a value. A CSV file does not distinguish digits from text: all are texts."""
    parts = {name.removeprefix(prefix): value for name, value in record.items() if name.startswith(prefix)}
    return {
        name: value if isinstance(value, dict | list) else str(value)
        for name, value in parts.items()
        if value not in (None, "")
    }


def _reply(record: Record) -> Reply:
    """Return the reply: the run's only output, or all of them as JSON."""
    outputs, seconds = _part(record, _OUTPUT), number(record.get("execution_time"))
    only = next(iter(outputs.values())) if len(outputs) == 1 else outputs
    return Reply(text=only if isinstance(only, str) else canonical(only), latency_s=_seconds(seconds))


def _seconds(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)
