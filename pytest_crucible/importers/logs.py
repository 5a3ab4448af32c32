"""Logs of Inspect and samples of lm-evaluation-harness."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pytest_crucible.importers.metric_facts import facts_by_name
from pytest_crucible.importers.results import (
    NoSampleScoresError,
    ParsedFile,
    Results,
    Row,
    Source,
    mostly_numbers,
    open_source,
    split_values,
    values_by_metric,
)
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
        yield from _nested_metrics(scorer.get("metrics"), scorer["name"])
    yield from _nested_metrics(spec.get("metrics"), "*")


def _nested_metrics(within: Any, pattern: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the metrics of a scorer: a list, or a list for each of its values, which `*` may stand for."""
    if isinstance(within, list):
        for item in within:
            yield from _nested_metrics(item, pattern)
    elif isinstance(within, dict) and isinstance(within.get("name"), str):
        yield pattern, within
        yield from _nested_metrics(_options(within).get("metric"), pattern)
    elif isinstance(within, dict):
        for value, metrics in within.items():
            yield from _nested_metrics(metrics, f"{pattern}.{value}")


def _options(metric: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a metric, which are `params` for the one inside `grouped(...)`."""
    options: Mapping[str, Any] = metric.get("options") or metric.get("params") or {}
    return options


# The format version that this module reads.
INSPECT_VERSION = 2
# Values of correct, incorrect, partially correct and no answer in Inspect's `value_to_float`.
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_TRANSCRIPT = ("events", "messages", "attachments", "store")
_HEADER, _START, _SAMPLES = "header.json", "_journal/start.json", "samples/"


def recognises_inspect(source: Source) -> bool:
    """Return whether it is an archive with a header (or the start of a killed run), or a document with `eval`."""
    if source.archive is not None:
        return bool({_HEADER, _START} & set(source.archive.namelist()))
    return isinstance(source.document, dict) and "eval" in source.document and "version" in source.document


def read_inspect(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm on one task."""
    header, samples = (
        _read_archive(source) if source.archive is not None else (source.document, source.document.get("samples") or ())
    )
    if header.get("version") != INSPECT_VERSION:
        raise SpecError(
            f"{source.path} is an Inspect log of format {header.get('version')!r}, and format {INSPECT_VERSION} can be read: "
            "convert it with `inspect log convert`"
        )
    spec = header["eval"]
    # Transcripts are most of a log: they are dropped sample by sample, so that they are never all in memory.
    lean = [{name: value for name, value in sample.items() if name not in _TRANSCRIPT} for sample in samples]
    # The user's choice of a group replaces the log's.
    cluster = "" if "group" in columns else cluster_key(spec)
    rows = _mark_missing_scores([_inspect_row(sample, cluster) for sample in lean])
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
    notes = (*ended, *_inspect_left_out(lean, rows, source.path.name))
    return ParsedFile(version=spec.get("packages", {}).get("inspect_ai", ""), results=[results], notes=notes)


def _read_archive(source: Source) -> tuple[Mapping[str, Any], Iterable[Mapping[str, Any]]]:
    assert source.archive is not None
    names = source.archive.namelist()
    header = source.member(_HEADER if _HEADER in names else _START)
    return header, (source.member(name) for name in names if name.startswith(_SAMPLES) and name.endswith(".json"))


def _inspect_row(sample: Mapping[str, Any], cluster: str) -> Row:
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
        reply=_inspect_reply(sample.get("output") or {}),
        input=sample.get("input"),
        expected=sample.get("target"),
        group=str(metadata[cluster]) if metadata.get(cluster) is not None else None,
        metadata=metadata,
    )


def _mark_missing_scores(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with missing scores marked as lost: a scorer scores all samples, so it did not reach these."""
    names = {name for row in rows for name in (*row.scores, *row.lost)}
    why = "the scorer did not get to it"
    return [
        row if row.error else replace(row, lost={**dict.fromkeys(names - set(row.scores), why), **row.lost})
        for row in rows
    ]


def _scores(scores: Mapping[str, Any]) -> Iterator[tuple[str, Value | None]]:
    return ((name, _number(value)) for name, value in _values(scores) if not isinstance(value, list | dict))


def _values(scores: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield metrics with their values as logged. A scorer of several values has one metric for each: `scorer.value`."""
    for name, score in scores.items():
        value = score["value"]
        if isinstance(value, dict):
            yield from ((f"{name}.{part}", part_value) for part, part_value in value.items())
        else:
            yield name, value


def _inspect_left_out(samples: Sequence[Mapping[str, Any]], rows: Sequence[Row], log: str) -> Iterator[str]:
    """Yield a note for each metric that cannot be compared: its values are lists, or text."""
    logged = [pair for sample in samples for pair in _values(sample.get("scores") or {})]
    for name in dict.fromkeys(name for name, value in logged if isinstance(value, list | dict)):
        yield f"metric {name!r} of {log} has lists as values, left out"
    for name, values in values_by_metric(rows).items():
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
    values = (pair for sample in samples for pair in _values(sample.get("scores") or {}))
    return {name for name, value in values if isinstance(value, str) and value in GRADES}


def _inspect_reply(output: Mapping[str, Any]) -> Reply | None:
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


_FILE = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")

_NO_METRICS = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
    | {"doc_hash", "prompt_hash", "target_hash", "task_name", "schedule"}
)


def recognises_lm_eval(source: Source) -> bool:
    """Return whether these are logged samples, or the results file that is next to them."""
    if source.rows is not None:
        return bool(source.rows) and {"doc_id", "resps", "filtered_resps"} <= set(source.rows[0][1])
    return isinstance(source.document, dict) and {"results", "higher_is_better"} <= set(source.document)


def read_lm_eval(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return the samples of one task; for the results file of a run, those of all its tasks, in the files next to it."""
    if source.rows is not None:
        harness = _ResultsFile.beside(source.path)
        return ParsedFile(
            version=harness.version, results=[_lm_eval_results(source, harness)], notes=list(_lm_eval_left_out(source))
        )
    harness = _ResultsFile.of(source.document)
    date = source.path.stem.removeprefix("results_")
    files = [open_source(path) for path in sorted(source.path.parent.glob(f"samples_*_{date}.jsonl"))]
    if not files:
        raise NoSampleScoresError(
            f"{source.path} has totals only: run lm_eval with --log_samples, which writes samples beside it"
        )
    notes = [note for file in files for note in _lm_eval_left_out(file)]
    return ParsedFile(version=harness.version, results=[_lm_eval_results(file, harness) for file in files], notes=notes)


# A log-likelihood task logs each sample's log-likelihood under the name of the aggregate that is computed from it.
_PERPLEXITY, _LOG_LIKELIHOOD = "perplexity", "log_likelihood"


@dataclass(frozen=True, slots=True)
class _ResultsFile:
    """Facts about the samples that only the results file contains."""

    arm: str
    version: str
    higher: Mapping[str, Mapping[str, bool]]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> _ResultsFile:
        arm = document.get("model_name") or document.get("model_source") or ""
        return cls(arm, document.get("lm_eval_version") or "", document.get("higher_is_better") or {})

    @classmethod
    def beside(cls, samples: Path) -> _ResultsFile:
        """Read the results file next to the samples. Without one, the folder's name is the model's."""
        match = _FILE.fullmatch(samples.name)
        results = samples.with_name(f"results_{match['date']}.json") if match else None
        if results is None or not results.is_file():
            return cls(samples.resolve().parent.name, "", {})
        return cls.of(json.loads(results.read_text(encoding="utf-8")))


def _lm_eval_results(source: Source, harness: _ResultsFile) -> Results:
    """Return one arm. The filters of a task read one reply in different ways: their scores belong to one row."""
    match = _FILE.fullmatch(source.path.name)
    task = match["task"] if match else source.path.stem
    rows: dict[str, Row] = {}
    for line, sample in source.rows or ():
        row = _lm_eval_row(sample)
        earlier = rows.get(row.sample, row)
        if earlier is not row and {*row.scores, *row.lost} & {*earlier.scores, *earlier.lost}:
            raise SpecError(
                f"line {line} of {source.path} repeats doc_id {row.sample} under one filter: ids must be unique"
            )
        scores, lost = {**earlier.scores, **row.scores}, {**earlier.lost, **row.lost}
        rows[row.sample] = replace(earlier, scores=scores, lost=lost)
    return Results(
        task=task,
        arm=harness.arm,
        rows=list(rows.values()),
        facts=_lm_eval_facts(rows.values(), harness.higher.get(task, {})),
    )


def _lm_eval_row(sample: Mapping[str, Any]) -> Row:
    by_filter = "" if sample.get("filter", "none") == "none" else f".{sample['filter']}"
    values = {
        _lm_eval_name(name, sample) + by_filter: sample[name]
        for name in _lm_eval_metrics(sample)
        if _is_score(sample[name])
    }
    return Row(
        sample=str(sample["doc_id"]),
        scores={name: value for name, value in values.items() if math.isfinite(value)},
        lost={name: f"the value is {value}" for name, value in values.items() if not math.isfinite(value)},
        reply=Reply(text=_lm_eval_text(sample["filtered_resps"])),
        input=sample.get("doc"),
        expected=sample.get("target"),
    )


def _lm_eval_metrics(sample: Mapping[str, Any]) -> list[str]:
    """Return the metrics of a sample. Versions before 0.4.7 do not list them: there, every unknown field is one."""
    return [name for name in sample.get("metrics") or set(sample) - _NO_METRICS if name in sample]


def _lm_eval_name(metric: str, sample: Mapping[str, Any]) -> str:
    """Return the name of a sample's value. A perplexity is at least 1: a value of at most 0 is a log-likelihood."""
    return _LOG_LIKELIHOOD if metric == _PERPLEXITY and not sample[metric] > 0 else metric


def _is_score(value: Any) -> bool:
    """Return whether a value is a score. Metrics of a whole corpus, such as perplexity, have a list here."""
    return isinstance(value, int | float)


def _lm_eval_left_out(source: Source) -> Iterator[str]:
    _, first = (source.rows or [(0, {})])[0]
    for name in _lm_eval_metrics(first):
        if not _is_score(first[name]):
            yield f"metric {name!r} of {source.path.name} has no value of a single sample, left out"
        elif _lm_eval_name(name, first) != name:
            yield (
                f"metric {name!r} of {source.path.name} is a number of the whole corpus: its samples have "
                f"{_lm_eval_name(name, first)!r}, where higher is better"
            )


def _lm_eval_text(resps: Sequence[Any]) -> str:
    """Return the generated reply; for a multiple choice, the likelihoods as JSON."""
    first = resps[0] if resps else ""
    return first if isinstance(first, str) and len(resps) == 1 else json.dumps(resps)


def _lm_eval_facts(rows: Iterable[Row], higher: Mapping[str, bool]) -> dict[str, MetricFacts]:
    """Return facts with the direction that the task declares. Tasks do not declare ranges."""
    names = dict.fromkeys(name for row in rows for name in (*row.scores, *row.lost))
    declared = {name: higher[plain] for name in names if (plain := name.partition(".")[0]) in higher}
    return {name: replace(facts_by_name(name), direction="higher" if up else "lower") for name, up in declared.items()}
