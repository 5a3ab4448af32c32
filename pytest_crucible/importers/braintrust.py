"""Results of Braintrust's `Eval`, as `result.as_json(default=str)` returns them (https://www.braintrust.dev/docs/evaluate)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.importers.results import ParsedFile, Results, Row, number_repeats
from pytest_crucible.importers.source import Source
from pytest_crucible.records import MetricFacts, Reply
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical

# What an evaluation that sends no logs makes of its `experiment_name`.
_EXPERIMENT = " [experiment_name="
_OWN = ("scorer_errors", "classifier_errors")
Record = Mapping[str, Any]


def recognises(source: Source) -> bool:
    """Return whether the document has a summary beside results, or is one of Braintrust's other outputs."""
    return _is_result(source.document) or bool(_other_output(source))


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the experiment or else by the file. An input is a sample, and its trials are its repeats."""
    other = _other_output(source)
    if other:
        raise SpecError(
            f"{source.path} is {other} of Braintrust, which is not read: "
            "write `result.as_json(default=str)`, where `result` is what `Eval(...)` returns, or a table with a row for each sample"
        )
    summary, records = source.document["summary"], source.document["results"]
    metrics = tuple(dict.fromkeys(name for record in records for name in record["scores"]))
    rows = number_repeats([_row(record, name, metrics) for record, name in zip(records, _names(records), strict=True)])
    results = Results(
        task=summary["project_name"],
        arm=_arm(summary) or source.path.stem,
        rows=rows,
        # Scores of Braintrust are from 0 to 1, and more is better.
        facts={name: MetricFacts(name=name, low=0.0, high=1.0) for name in metrics},
        repeats=max(row.repeat for row in rows) + 1,
    )
    classified = any(record.get("classifications") for record in records)
    notes = [f"{source.path.name}: the labels of classifiers are not scores, left out"] if classified else []
    return ParsedFile(version="", results=[results], notes=notes)


def _is_result(document: Any) -> bool:
    if not (isinstance(document, dict) and {"summary", "results"} <= set(document)):
        return False
    return isinstance(document["summary"], dict) and _is_summary(document["summary"])


def _is_summary(record: Record) -> bool:
    return {"project_name", "experiment_name", "comparison_experiment_name"} <= set(record)


def _other_output(source: Source) -> str:
    """Return the name of an output of Braintrust that is not read; empty for any other document."""
    first = (source.records or [source.document])[0]
    if not isinstance(first, dict):
        return ""
    is_event = {"_xact_id", "root_span_id", "span_id", "scores"} <= set(first)
    return "a summary" if _is_summary(first) else "an export of events" if is_event else ""


def _arm(summary: Record) -> str:
    """Return the experiment's name; empty if it has only the project's."""
    name: str = summary["experiment_name"]
    # Not a pattern: on a name with many such marks it would take quadratic time.
    _, mark, experiment = name.rpartition(_EXPERIMENT)
    if mark and len(experiment) > 1 and experiment.endswith("]"):
        return experiment[:-1]
    return name if name != summary["project_name"] else ""


def _names(records: Sequence[Record]) -> list[str]:
    """Return the id of each sample: of its row in a dataset of Braintrust, or else its input, with a suffix for equal inputs."""
    expected: dict[str, set[str]] = {}
    for record in records:
        expected.setdefault(_text(record["input"]), set()).add(canonical(record["expected"]))
    return [_name(record, has_twins=len(expected[_text(record["input"])]) > 1) for record in records]


def _name(record: Record, *, has_twins: bool) -> str:
    origin = record.get("origin") or {}
    return origin.get("id") or (
        canonical([record["input"], record["expected"]]) if has_twins else _text(record["input"])
    )


def _row(record: Record, sample: str, metrics: Sequence[str]) -> Row:
    """Return the row of a trial. A score that is None does not apply. Failed scorers may count 0: their scores are lost."""
    metadata = record.get("metadata") or {}
    error = _error(record)
    lost = {} if error else _lost(record["scores"], metadata.get("scorer_errors", {}), metrics)
    return Row(
        sample=sample,
        error=error,
        scores={} if error else {name: record["scores"].get(name) for name in metrics if name not in lost},
        lost=lost,
        reply=None if error else Reply(text=_text(record["output"])),
        input=record["input"],
        expected=record["expected"],
        metadata={name: value for name, value in metadata.items() if name not in _OWN},
    )


def _lost(scores: Record, tracebacks: Record, metrics: Sequence[str]) -> dict[str, str]:
    """Return the lost scores. A scorer of several scores fails under its own name: the missing scores are its own."""
    errors = {name: str(traceback).strip().rpartition("\n")[2] for name, traceback in tracebacks.items()}
    unnamed = next((error for name, error in errors.items() if name not in metrics), "")
    missing = [name for name in metrics if name not in scores and unnamed]
    return {**dict.fromkeys(missing, unnamed), **{name: errors[name] for name in metrics if name in errors}}


def _error(record: Record) -> str:
    return "" if record["error"] is None else str(record["error"]).partition("\n")[0] or "error"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)
