"""Files of Every Eval Ever: samples, one record for each metric of a sample, and the aggregate beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.importers.generation import finish_of
from pytest_crucible.importers.record_formats import MISSING
from pytest_crucible.importers.results import (
    NoSampleScoresError,
    ParsedFile,
    Record,
    Results,
    Row,
    Source,
    amount,
    as_text,
)
from pytest_crucible.importers.sources import open_source, read_beside
from pytest_crucible.records import MetricFacts, Reply

# https://evalevalai.com, schema 0.3
_SAMPLES = "_samples"
_SCORE = "score"
# Metadata that converters and our own export add: they do not belong to the sample.
_OWN = frozenset({"epoch", "group", "lm_eval_metrics", "stop_reason"})
Unit = tuple[str, str, str, int]


def recognises_every_eval_ever(source: Source) -> bool:
    """Return whether these are samples of the schema, or an aggregate of it."""
    if source.rows is not None:
        return bool(source.rows) and {"evaluation_id", "sample_id", "interaction_type", "evaluation"} <= set(
            source.rows[0][1]
        )
    is_document = isinstance(source.document, dict)
    return is_document and {"evaluation_id", "evaluation_results", "source_metadata"} <= set(source.document)


def read_every_eval_ever(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return an arm for each model and evaluation. The aggregate has the directions and ranges of the metrics."""
    if source.rows is None:
        aggregate, source = source.document, _samples_beside(source)
    else:
        aggregate = read_beside(source.path.with_name(source.path.stem.removesuffix(_SAMPLES) + ".json"))
    records = source.records
    are_named = any(record.get("evaluation_result_id") for record in records)
    units: dict[Unit, Row] = {}
    for record in records:
        _add(units, record, are_named)
    arms: dict[tuple[str, str], list[Row]] = {}
    for (task, arm, _, _), row in units.items():
        arms.setdefault((task, arm), []).append(row)
    library = aggregate.get("eval_library") or {}
    return ParsedFile(
        version=str(records[0]["schema_version"]),
        results=[_results(task, arm, rows, aggregate) for (task, arm), rows in arms.items()],
        notes=[f"{source.path.name} was made from results of {library['name']}"] if library.get("name") else [],
    )


def _samples_beside(source: Source) -> Source:
    """Return the samples of an aggregate. Raises NoSampleScoresError where they are not next to it."""
    named = (source.document.get("detailed_evaluation_results") or {}).get("file_path") or ""
    names = [named.rpartition("/")[2], f"{source.path.stem}{_SAMPLES}.jsonl"]
    path = next((path for name in names if name and (path := source.path.with_name(name)).is_file()), None)
    if path is None:
        raise NoSampleScoresError(
            f"{source.path} has only aggregate scores of Every Eval Ever: put its samples, {named or names[1]}, next to it"
        )
    return open_source(path)


def _results(task: str, arm: str, rows: Sequence[Row], aggregate: Record) -> Results:
    facts = [_facts(result) for result in aggregate.get("evaluation_results") or ()]
    names = dict.fromkeys(name for row in rows for name in (*row.scores, *row.lost))
    rows = [_with_losses(row, names) for row in rows]
    return Results(
        task=task,
        arm=arm,
        rows=rows,
        facts={fact.name: fact for fact in facts if fact.name in names},
        repeats=max(row.repeat for row in rows) + 1,
        # The schema has no number of repeats that a sample was to have.
        has_uneven_repeats=True,
        weights={"model": arm},
    )


def _with_losses(row: Row, names: Iterable[str]) -> Row:
    """Return a row in which each metric without a value is lost; a row without any score is lost itself."""
    if row.error or not row.scores:
        return replace(row, scores={}, lost={}, error=row.error or next(iter(row.lost.values())))
    missing = {name: MISSING for name in names if name not in {**row.scores, **row.lost}}
    return replace(row, lost={**row.lost, **missing})


def _facts(result: Record) -> MetricFacts:
    config = result.get("metric_config") or {}
    low, high = amount(config.get("min_score")), amount(config.get("max_score"))
    # The schema has no place for an unknown direction: our own export writes it into the details.
    stated = (config.get("additional_details") or {}).get("direction")
    return MetricFacts(
        name=_metric(result.get("evaluation_result_id")),
        direction="lower" if config.get("lower_is_better") else "higher",
        is_directed=stated != "unknown" and isinstance(config.get("lower_is_better"), bool),
        low=-math.inf if low is None else low,
        high=math.inf if high is None else high,
    )


def _metric(result_id: Any) -> str:
    """Return the metric of a result: `exact_match.strict` for the id `exact_match:strict`, and `score` without an id."""
    return str(result_id).replace(":", ".") if result_id else _SCORE


def _add(units: dict[Unit, Row], record: Record, are_named: bool) -> None:
    """Add a record to the row of its sample. A record that names no result, beside others that do, is of all its metrics."""
    result, error = record.get("evaluation_result_id"), str(record.get("error") or "").partition("\n")[0]
    name = _metric(result) if result or not are_named else ""
    key = (record["evaluation_name"], record["model_id"], record["sample_id"])
    unit = (*key, _repeat(units, record, key, name))
    row = units.get(unit) or _row(record, unit)
    if not name:
        units[unit] = replace(row, error=error or "its metrics have no numbers")
    elif error:
        units[unit] = replace(row, lost={**row.lost, name: error})
    else:
        units[unit] = replace(row, scores={**row.scores, name: record["evaluation"]["score"]})


def _repeat(units: Mapping[Unit, Row], record: Record, key: tuple[str, str, str], metric: str) -> int:
    """Return the repeat of a record: its epoch, or else the first in which its metric has no value."""
    epoch = str((record.get("metadata") or {}).get("epoch") or "")
    if epoch.isdecimal() and int(epoch):
        return int(epoch) - 1
    repeat = 0
    while (row := units.get((*key, repeat))) is not None and (
        not metric or row.error or metric in {**row.scores, **row.lost}
    ):
        repeat += 1
    return repeat


def _row(record: Record, unit: Unit) -> Row:
    usage, performance = record.get("token_usage") or {}, record.get("performance") or {}
    question, metadata = record["input"], record.get("metadata") or {}
    milliseconds = performance.get("generation_time_ms") or performance.get("latency_ms")
    texts = (record.get("output") or {}).get("raw") or [
        message.get("content") for message in record.get("messages") or () if message["role"] == "assistant"
    ]
    return Row(
        sample=unit[2],
        repeat=unit[3],
        reply=None
        if record.get("error") or not texts
        else Reply(
            text=as_text(texts[-1] or ""),
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            latency_s=None if milliseconds is None else milliseconds / 1000,
            finish=finish_of(metadata.get("stop_reason")),
        ),
        input={"raw": question["raw"], "choices": question["choices"]} if question.get("choices") else question["raw"],
        expected=question.get("reference"),
        prompt=question.get("formatted"),
        group=metadata.get("group"),
        metadata={name: value for name, value in metadata.items() if name not in _OWN},
    )
