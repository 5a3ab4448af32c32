"""Logs of Inspect: their samples, or the reduced scores of samples that have no epochs of their own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Any

from pytest_crucible.importers.generation import finish_of, first_end, generation_settings
from pytest_crucible.importers.packed_rows import RowColumns
from pytest_crucible.importers.results import (
    Call,
    NoSampleScoresError,
    ParsedFile,
    Results,
    Row,
    Source,
    mostly_numbers,
    split_values,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.stats.number_format import quantity

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
_HEADER, _START, _SAMPLES, _REDUCTIONS = "header.json", "_journal/start.json", "samples/", "reductions.json"
# Settings of requests that change no reply.
_SENDING = frozenset(
    {
        "max_connections",
        "adaptive_connections",
        "max_retries",
        "timeout",
        "attempt_timeout",
        "batch",
        "cache",
        "cache_prompt",
    }
)


def recognises_inspect(source: Source) -> bool:
    """Return whether it is an archive with a header (or the start of a killed run), or a document with `eval`."""
    if source.archive is not None:
        return bool({_HEADER, _START} & set(source.archive.namelist()))
    return isinstance(source.document, dict) and "eval" in source.document and "version" in source.document


def read_inspect(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm on one task."""
    log = _Log.of_archive(source) if source.archive is not None else _Log.of_document(source.document)
    if log.header.get("version") != INSPECT_VERSION:
        raise SpecError(
            f"{source.path} is an Inspect log of format {log.header.get('version')!r}, and format {INSPECT_VERSION} can be read: "
            "convert it with `inspect log convert`"
        )
    spec, status = log.header["eval"], log.header.get("status", "started")
    settings = _settings(spec.get("model_generate_config"), log.header.get("plan", {}).get("config"))
    # Transcripts are most of a log: they are dropped sample by sample, so that they are never all in memory.
    lean = [_without_transcript(sample, settings, spec["model"]) for sample in log.samples]
    # The user's choice of a group replaces the log's.
    cluster = "" if "group" in columns else cluster_key(spec)
    rows = _mark_missing_scores([_inspect_row(sample, cluster) for sample in lean])
    dataset, config = spec.get("dataset", {}), spec.get("config", {})
    reducers = _reducers(log.reductions, config)
    has_scores = any(row.scores or row.lost for row in rows)
    is_reduced = reducers != [MEAN] or not rows or (bool(log.reductions) and not has_scores)
    if is_reduced:
        rows = _reduce(rows, log.reductions, reducers, settings, source.path.name, status)
    names = {name for row in rows for name in (*row.scores, *row.lost)}
    if rows and not names:
        raise NoSampleScoresError(
            f"{source.path} has {len(rows)} samples and no scores (its run ended as {status!r}): run it again, "
            "or score it with `inspect score`"
        )
    results = Results(
        task=spec["task"],
        arm=spec["model"],
        rows=rows,
        facts={
            name: MetricFacts(name=name, low=0.0, high=1.0) for name in sorted(_find_shares(spec, lean, log, names))
        },
        planned=[str(sample_id) for sample_id in dataset.get("sample_ids") or ()],
        repeats=1 if is_reduced else max([config.get("epochs") or 1, *(row.repeat + 1 for row in rows)]),
        # Of a run that went on after errors, nothing is missing.
        finished=status == "success"
        or 0 < len(dataset.get("sample_ids") or ()) * (config.get("epochs") or 1) <= len(lean),
        weights={"model": spec["model"]},
    )
    ended = [] if status == "success" else [f"the run of {source.path.name} ended as {status!r}"]
    if raised := sum(bool(sample.get("error") and sample.get("scores")) for sample in lean):
        ended.append(
            f"{quantity(raised, 'sample')} of {source.path.name} raised and {'was' if raised == 1 else 'were'} scored"
        )
    notes = (*ended, *_inspect_left_out(lean, rows, source.path.name))
    return ParsedFile(version=spec.get("packages", {}).get("inspect_ai", ""), results=[results], notes=notes)


@dataclass(frozen=True, slots=True)
class _Log:
    header: Mapping[str, Any]
    samples: Iterable[Mapping[str, Any]]
    reductions: Sequence[Mapping[str, Any]]
    """Of each scorer and reducer, the reduced score of each sample. A run that did not end has none."""

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> _Log:
        return cls(document, document.get("samples") or (), document.get("reductions") or ())

    @classmethod
    def of_archive(cls, source: Source) -> _Log:
        assert source.archive is not None
        names = source.archive.namelist()
        samples = (source.member(name) for name in names if name.startswith(_SAMPLES) and name.endswith(".json"))
        reductions = source.member(_REDUCTIONS) if _REDUCTIONS in names else ()
        return cls(source.member(_HEADER if _HEADER in names else _START), samples, reductions)


def _without_transcript(sample: Mapping[str, Any], settings: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return a sample with its requests in place of its transcript; settings and model are those of the log."""
    lean = {name: value for name, value in sample.items() if name not in _TRANSCRIPT}
    requests = [event for event in sample.get("events") or () if _is_request(event, model)]
    calls = [
        Call(parameters=_call_settings(event, settings), reply=_inspect_reply(event.get("output") or {}))
        for event in requests
    ]
    return {
        **lean,
        "prompt": _prompt(sample),
        "parameters": calls[0].parameters if calls else _call_settings({}, settings),
        "calls": tuple(calls) if len(calls) > 1 else (),
    }


def _is_request(event: Mapping[str, Any], model: str) -> bool:
    """Return whether an event is a request to the model under test, not to a grader, which has a role, or to a tool's model."""
    return event.get("event") == "model" and not event.get("role") and event.get("model", model) == model


def _prompt(sample: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the messages before the first reply, with the system message and examples that solvers have added."""
    messages = list(takewhile(lambda message: message.get("source") != "generate", sample.get("messages") or ()))
    # A solver that writes the reply itself does not mark it as generated.
    while messages and messages[-1]["role"] == "assistant":
        messages.pop()
    return [{"role": message["role"], "content": message["content"]} for message in messages] or None


def _call_settings(call: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the generation settings of a request: of the call itself, which solvers may change, or else of the log."""
    own = _settings(call["config"]) if call.get("config") else dict(settings)
    return {**own, **generation_settings({"tools": [tool["name"] for tool in call.get("tools") or ()]})}


def _settings(*configs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of configurations, the later ones first, without those of sending and of waiting."""
    both = {name: value for config in configs for name, value in (config or {}).items()}
    return {name: value for name, value in both.items() if name not in _SENDING and value is not None}


MEAN = "mean"
# Reducers whose values are from 0 to 1, whatever they reduce.
_SHARES = frozenset({"pass_at", "pass_k", "at_least"})


def _reducers(reductions: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> list[str]:
    """Return the declared reducers of epochs: those of the reduced scores, or else of the configuration."""
    reduced = dict.fromkeys(reduction.get("reducer") or MEAN for reduction in reductions)
    declared = config.get("epochs_reducer") or [MEAN]
    return list(reduced) or ([declared] if isinstance(declared, str) else list(declared))


def _reduce(
    rows: Sequence[Row],
    reductions: Sequence[Mapping[str, Any]],
    reducers: Sequence[str],
    settings: Mapping[str, Any],
    log: str,
    status: str,
) -> list[Row]:
    """Return a row for each sample with its reduced scores: `match.max` of the scorer `match`, and plain `match` for its mean.

    Raises SpecError without reduced scores: a reducer may have arguments that its name does not show, so that only Inspect
    computes it.
    """
    if rows and not reductions:
        raise SpecError(
            f"{log} declares the reducer {', '.join(reducers)} of its epochs and has no scores that are reduced by it (its run "
            f"ended as {status!r}): complete it with `inspect eval-retry`, or score it with `inspect score`"
        )
    reduced: dict[str, dict[str, Value | None]] = {}
    for reduction in reductions:
        suffix = "" if reduction.get("reducer") in (MEAN, None) else f".{reduction['reducer']}"
        for score in reduction["samples"]:
            values = _scores({reduction["scorer"]: score})
            reduced.setdefault(str(score["sample_id"]), {}).update((name + suffix, value) for name, value in values)
    epochs: dict[str, list[Row]] = {}
    for row in rows:
        epochs.setdefault(row.sample, []).append(row)
    return [
        _reduced_row(epochs.get(name) or [Row(sample=name, parameters=settings)], reduced.get(name, {}))
        for name in dict.fromkeys([*epochs, *reduced])
    ]


def _reduced_row(epochs: Sequence[Row], scores: Mapping[str, Value | None]) -> Row:
    """Return the row of a sample. Inspect reduces the epochs that were scored; the score of more could be another one."""
    why = next((why for row in epochs for why in (row.error, *row.lost.values()) if why), "")
    if why:
        lost = dict.fromkeys(scores, f"an epoch is lost: {why}")
        return replace(epochs[0], repeat=0, scores={}, lost=lost, error="" if scores else why)
    return replace(epochs[0], repeat=0, **split_values(scores, "the reducer gave no value"))


def _find_shares(spec: Spec, samples: Sequence[Mapping[str, Any]], log: _Log, names: Iterable[str]) -> set[str]:
    """Return the metrics with values from 0 to 1: grades, accuracies, and what counts epochs."""
    reduced = [{"scores": {each["scorer"]: score}} for each in log.reductions for score in each["samples"]]
    plain = {
        name: name.rpartition(".")[0] if name.rpartition(".")[2] in _reducers(log.reductions, {}) else name
        for name in names
    }
    rated = _graded_metrics([*samples, *reduced]) | accuracies(spec, plain.values())
    # A reducer's name ends in its number of epochs.
    kinds = {name: name.rpartition(".")[2].rstrip("_0123456789") for name in plain}
    return {name for name, base in plain.items() if base in rated or kinds[name] in _SHARES}


def _inspect_row(sample: Mapping[str, Any], cluster: str) -> Row:
    """Return the row of a sample. One that failed keeps scores that it has; one that was declared invalid is lost."""
    scores = dict(_scores(sample.get("scores") or {}))
    error, invalid = sample.get("error") or {}, sample.get("invalidation")
    why = "invalidated" if invalid else "" if scores else error.get("message", "")
    metadata = sample.get("metadata") or {}
    return Row(
        sample=str(sample["id"]),
        repeat=sample.get("epoch", 1) - 1,
        scores={name: value for name, value in scores.items() if value is not None},
        lost={name: _why_unscored(sample, name) for name, value in scores.items() if value is None},
        error=why,
        reply=_last_reply(sample),
        input=sample.get("input"),
        expected=sample.get("target"),
        group=str(metadata[cluster]) if metadata.get(cluster) is not None else None,
        metadata=metadata,
        prompt=sample["prompt"],
        parameters=sample["parameters"],
        calls=sample["calls"],
    )


def _why_unscored(sample: Mapping[str, Any], name: str) -> str:
    """Return why a scorer gave no value, such as a judge whose verdict could not be read, as far as the log has it."""
    score = sample["scores"].get(name) or sample["scores"].get(name.partition(".")[0]) or {}
    reason = score.get("reason") or (score.get("metadata") or {}).get("unscored_reason")
    return f"the scorer gave no value ({reason})" if reason else "the scorer gave no value"


def _mark_missing_scores(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with missing scores marked as lost: a scorer scores all samples, so it did not reach these."""
    names = {name for row in rows for name in (*row.scores, *row.lost)}
    # A scorer of several values that gives none has one loss, under its own name: it is that of each value.
    whole = {name.partition(".")[0] for name in names if "." in name} & names
    return [row if row.error else replace(row, lost=_losses(row, names - whole)) for row in rows]


def _losses(row: Row, names: Iterable[str]) -> dict[str, str]:
    whys = (
        (name, row.lost.get(name) or row.lost.get(name.partition(".")[0])) for name in names if name not in row.scores
    )
    return {name: why or "the scorer did not get to it" for name, why in whys}


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
    columns = RowColumns.of(rows)
    for name in columns.scores:
        values = columns.values(name)
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


def _last_reply(sample: Mapping[str, Any]) -> Reply | None:
    reply = _inspect_reply(sample.get("output") or {})
    return reply and replace(reply, finish=first_end((*(call.reply for call in sample["calls"]), reply)))


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
        finish=finish_of(choices[0].get("stop_reason")),
        model=output.get("model", ""),
    )
