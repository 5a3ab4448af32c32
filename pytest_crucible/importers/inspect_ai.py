"""Logs of Inspect: `.eval` archives and their JSON form (https://inspect.aisi.org.uk/eval-logs.html)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from pytest_crucible.importers.cells import mostly_numbers
from pytest_crucible.importers.results import NoSampleScoresError, ParsedFile, Results, Row, split_values
from pytest_crucible.importers.source import Source
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError

Spec = Mapping[str, Any]


def cluster_key(spec: Spec) -> str:
    """Return the key of the metadata that `stderr(cluster="...")` names. Raises SpecError for two different keys."""
    clusters = dict.fromkeys(key for _, metric in _declared_metrics(spec) if (key := _options(metric).get("cluster")))
    if len(clusters) > 1:
        raise SpecError(f"the log has several clusters ({', '.join(clusters)}): choose one with --group KEY")
    return next(iter(clusters), "")


def accuracies(spec: Spec, names: Iterable[str]) -> set[str]:
    """Return the metrics whose values the log averages as an accuracy: from 0 to 1, and more is better."""
    patterns = [
        pattern for pattern, metric in _declared_metrics(spec) if metric["name"].rpartition("/")[2] == "accuracy"
    ]
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}


def _declared_metrics(spec: Spec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each metric with the pattern of the names that it is computed from. A task's own metrics are of every scorer."""
    for scorer in spec.get("scorers") or ():
        yield from _metrics(scorer.get("metrics"), scorer["name"])
    yield from _metrics(spec.get("metrics"), "*")


def _metrics(within: Any, pattern: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the metrics of a scorer: a list, or a list for each of its values, which `*` may stand for."""
    if isinstance(within, list):
        for item in within:
            yield from _metrics(item, pattern)
    elif isinstance(within, dict) and isinstance(within.get("name"), str):
        yield pattern, within
        yield from _metrics(_options(within).get("metric"), pattern)
    elif isinstance(within, dict):
        for value, metrics in within.items():
            yield from _metrics(metrics, f"{pattern}.{value}")


def _options(metric: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a metric, which are `params` for the one inside `grouped(...)`."""
    options: Mapping[str, Any] = metric.get("options") or metric.get("params") or {}
    return options


# The format version that this module reads.
VERSION = 2
# Values of correct, incorrect, partially correct and no answer in Inspect's `value_to_float`.
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_HEADER, _START, _SAMPLES = "header.json", "_journal/start.json", "samples/"


def recognises(source: Source) -> bool:
    """Return whether it is an archive with a header (or the start of a killed run), or a document with `eval`."""
    if source.archive is not None:
        return bool({_HEADER, _START} & set(source.archive.namelist()))
    return isinstance(source.document, dict) and "eval" in source.document and "version" in source.document


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm on one task."""
    header, samples = _read_archive(source) if source.archive is not None else _read_document(source.document)
    if header.get("version") != VERSION:
        raise SpecError(
            f"{source.path} is an Inspect log of format {header.get('version')!r}, and format {VERSION} can be read: "
            "convert it with `inspect log convert`"
        )
    spec = header["eval"]
    # Transcripts are most of a log: they are dropped sample by sample, so that they are never all in memory.
    lean = [_lean(sample) for sample in samples]
    # The user's choice of a group replaces the log's.
    cluster = "" if "group" in columns else cluster_key(spec)
    rows = _mark_missing_scores([_row(sample, cluster) for sample in lean])
    dataset, config = spec.get("dataset", {}), spec.get("config", {})
    status = header.get("status", "started")
    names = {name for row in rows for name in (*row.scores, *row.lost)}
    if rows and not names:
        raise NoSampleScoresError(
            f"{source.path} has {len(rows)} samples and no scores (its run ended as {status!r}): run it again, "
            "or score it with `inspect score`"
        )
    rated = _graded_metrics(lean) | accuracies(spec, names)
    results = Results(
        task=spec["task"],
        arm=spec["model"],
        rows=rows,
        facts={name: MetricFacts(name=name, low=0.0, high=1.0) for name in sorted(rated)},
        planned=[str(sample_id) for sample_id in dataset.get("sample_ids") or ()],
        repeats=max([config.get("epochs") or 1, *(row.repeat + 1 for row in rows)]),
        finished=status == "success",
    )
    ended = () if status == "success" else (f"the run of {source.path.name} ended as {status!r}",)
    notes = (*ended, *_left_out(lean, rows, source.path.name))
    return ParsedFile(version=spec.get("packages", {}).get("inspect_ai", ""), results=[results], notes=notes)


def _read_archive(source: Source) -> tuple[Mapping[str, Any], Iterable[Mapping[str, Any]]]:
    assert source.archive is not None
    names = source.archive.namelist()
    header = source.member(_HEADER if _HEADER in names else _START)
    return header, (source.member(name) for name in names if name.startswith(_SAMPLES) and name.endswith(".json"))


def _read_document(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], Iterable[Mapping[str, Any]]]:
    return document, document.get("samples") or ()


def _lean(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sample without its transcript, which is most of its size."""
    return {name: value for name, value in sample.items() if name not in ("events", "messages", "attachments", "store")}


def _row(sample: Mapping[str, Any], cluster: str) -> Row:
    """Return the row of a sample. One that failed keeps scores that it has; one that was declared invalid is lost."""
    scores = dict(_scores(sample.get("scores") or {}))
    error, invalid = sample.get("error") or {}, sample.get("invalidation")
    why = "invalidated" if invalid else "" if scores else error.get("message", "")
    metadata = sample.get("metadata") or {}
    return Row(
        sample=str(sample["id"]),
        repeat=sample.get("epoch", 1) - 1,
        **split_values(scores, "the scorer gave no value"),
        error=why,
        reply=_reply(sample.get("output") or {}),
        input=sample.get("input"),
        expected=sample.get("target"),
        group=str(metadata[cluster]) if metadata.get(cluster) is not None else None,
        metadata=metadata,
    )


def _mark_missing_scores(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with missing scores marked as lost: a scorer scores all samples, so it did not reach these."""
    names = {name for row in rows for name in (*row.scores, *row.lost)}
    missing = dict.fromkeys(names, "the scorer did not get to it")
    return [row if row.error else replace(row, lost={**_without(missing, row.scores), **row.lost}) for row in rows]


def _without(names: Mapping[str, str], scored: Iterable[str]) -> dict[str, str]:
    return {name: why for name, why in names.items() if name not in set(scored)}


def _scores(scores: Mapping[str, Any]) -> Iterator[tuple[str, Value | None]]:
    """Yield metrics with their values, without those that are lists."""
    return ((name, _number(value)) for name, value in _values(scores) if not isinstance(value, list | dict))


def _values(scores: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield metrics with their values as logged. A scorer of several values has one metric for each: `scorer.value`."""
    for name, score in scores.items():
        value = score["value"]
        if isinstance(value, dict):
            yield from ((f"{name}.{part}", part_value) for part, part_value in value.items())
        else:
            yield name, value


def _left_out(samples: Sequence[Mapping[str, Any]], rows: Sequence[Row], log: str) -> Iterator[str]:
    """Yield a note for each metric that cannot be compared: its values are lists, or text."""
    logged = [pair for sample in samples for pair in _values(sample.get("scores") or {})]
    for name in dict.fromkeys(name for name, value in logged if isinstance(value, list | dict)):
        yield f"metric {name!r} of {log} has lists as values, left out"
    cells: dict[str, list[Value | None]] = {}
    for name, value in (item for row in rows for item in row.scores.items()):
        cells.setdefault(name, []).append(value)
    for name, values in cells.items():
        if any(isinstance(value, str) for value in values) and not mostly_numbers(values):
            yield f"metric {name!r} of {log} has text as values, left out"


def _number(value: Any) -> Value | None:
    """Return a score as a number; None for NaN, which means unscored. Text other than a grade stays text."""
    if isinstance(value, str):
        return GRADES.get(value, WORDS.get(value.lower(), value))
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, bool) else float(value)


def _graded_metrics(samples: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the metrics that have grades, which are between 0 and 1."""
    values = (pair for sample in samples for pair in _values(sample.get("scores") or {}))
    return {name for name, value in values if isinstance(value, str) and value in GRADES}


def _reply(output: Mapping[str, Any]) -> Reply | None:
    choices = output.get("choices") or ()
    if not choices:
        return None
    usage = output.get("usage") or {}
    return Reply(
        text=output.get("completion") or "",
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        latency_s=output.get("time"),
        finish="length" if choices[0].get("stop_reason") == "max_tokens" else "stop",
        model=output.get("model", ""),
    )
