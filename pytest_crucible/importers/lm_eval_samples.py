"""Samples of lm-evaluation-harness, with the settings that the results file of their run has."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from pytest_crucible.importers.generation import as_messages, generation_settings
from pytest_crucible.importers.large_files import LineRows
from pytest_crucible.importers.metric_facts import facts_by_name, is_known
from pytest_crucible.importers.packed_rows import PackedRows, Packing, PlainRows, RowColumns, are_finite
from pytest_crucible.importers.results import NoSampleScoresError, ParsedFile, Results, Row, Source
from pytest_crucible.importers.second_half import pack_lines
from pytest_crucible.importers.sources import open_source
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts, Reply
from pytest_crucible.records.errors import SpecError

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
# Metrics that are logged for each sample as its log-likelihood and its number of units.
_UNITS = {"word_perplexity": "word", "byte_perplexity": "byte", "bits_per_byte": "byte"}


@dataclass(frozen=True, slots=True)
class _ResultsFile:
    """Facts about the samples that only the results file contains."""

    arm: str
    version: str
    higher: Mapping[str, Mapping[str, bool]]
    examples: Mapping[str, int]
    """The number of examples in the prompts of each task (`num_fewshot`)."""
    settings: Mapping[str, Any]
    """Settings of all tasks: what stands around the prompts."""
    weights: Mapping[str, str]
    template: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> _ResultsFile:
        arm = document.get("model_name") or document.get("model_source") or ""
        around = ("system_instruction", "fewshot_as_multiturn")
        # A template belongs to its model: whether there is one is a setting.
        has_template = {"chat_template": True} if document.get("chat_template") else {}
        return cls(
            arm,
            document.get("lm_eval_version") or "",
            document.get("higher_is_better") or {},
            document.get("n-shot") or {},
            {**{name: document[name] for name in around if document.get(name)}, **has_template},
            _weights(arm, (document.get("config") or {}).get("model_args")),
            str(document.get("chat_template") or ""),
        )

    @classmethod
    def beside(cls, samples: Path) -> _ResultsFile:
        """Read the results file next to the samples. Without one, the folder's name is the model's, or that of a copy its own."""
        match = _FILE.fullmatch(samples.name)
        results = samples.with_name(f"results_{match['date']}.json") if match else None
        if results is None or not results.is_file():
            arm = samples.resolve().parent.name if match else samples.stem
            return cls(arm, "", {}, {}, {}, {}, "")
        return cls.of(json.loads(results.read_text(encoding="utf-8")))


# Arguments that name weights on top of the model's.
_ADAPTERS = ("peft", "delta", "lora_local_path", "revision")


def _weights(model: str, arguments: Any) -> dict[str, str]:
    """Return the model and the adapter on it. Arguments are a mapping, or a text such as `pretrained=a,peft=b`."""
    if isinstance(arguments, str):
        arguments = dict(part.partition("=")[::2] for part in arguments.split(","))
    named = arguments if isinstance(arguments, dict) else {}
    adapter = ",".join(f"{name}={named[name]}" for name in _ADAPTERS if named.get(name))
    return {"model": model, **({"checkpoint": adapter} if adapter else {})} if model else {}


def _lm_eval_results(source: Source, harness: _ResultsFile) -> Results:
    """Return one arm. The filters of a task read one reply in different ways: their scores belong to one row."""
    match = _FILE.fullmatch(source.path.name)
    # A copy under another name does not tell its task: two copies can be compared.
    task = match["task"] if match else str((source.rows or [(0, {})])[0][1].get("task_name") or "lm-eval")
    of_task = {"num_fewshot": harness.examples[task]} if task in harness.examples else {}
    rows = _join_filters(source, {**of_task, **harness.settings})
    return Results(
        task=task,
        arm=harness.arm,
        rows=rows,
        facts=_lm_eval_facts(RowColumns.of(rows).metrics, harness.higher.get(task, {})),
        weights=harness.weights,
        # Never empty: without a template, prompts are equal too.
        template=f"template {harness.template}",
    )


def _join_filters(source: Source, settings: Mapping[str, Any]) -> Sequence[Row]:
    """Return a row for each sample, with the scores of all filters."""
    if isinstance(source.rows, LineRows):
        packing = pack_lines(source.rows, partial(_pack, settings=settings))
        if not packing.columns.has_repeated_units():
            return PackedRows(packing, lambda: (_lm_eval_row(sample, settings) for _, sample in source.rows or ()))
    rows: dict[str, Row] = {}
    equal_settings: dict[str, Mapping[str, Any]] = {}
    for line, sample in source.rows or ():
        row = _lm_eval_row(sample, settings)
        # Equal in nearly all rows, of which there may be many: each keeps the same mapping.
        row = replace(row, parameters=equal_settings.setdefault(repr(row.parameters), row.parameters))
        earlier = rows.get(row.sample, row)
        if earlier is not row and {*row.scores, *row.lost} & {*earlier.scores, *earlier.lost}:
            raise SpecError(
                f"line {line} of {source.path} repeats doc_id {row.sample} under one filter: ids must be unique"
            )
        scores, lost = {**earlier.scores, **row.scores}, {**earlier.lost, **row.lost}
        rows[row.sample] = replace(earlier, scores=scores, lost=lost)
    return list(rows.values())


_PART = 50  # rows: with more, their objects leave the caches of the processor before their columns are read


def _pack(samples: Iterable[Mapping[str, Any]], settings: Mapping[str, Any]) -> Packing:
    """Return the rows without their replies: a part of rows of one kind by its columns, any other part row by row."""
    packing, samples = Packing(), iter(samples)
    while part := list(islice(samples, _PART)):
        if (plain := _plain_rows(part, settings)) is not None:
            packing.extend(plain)
        else:
            packing.add(_lm_eval_row(sample, settings, with_reply=False) for sample in part)
    return packing


_PLAIN = ("doc_id", "doc", "target", "arguments", "filter", "metrics", "prompt_hash")


def _plain_rows(part: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> PlainRows | None:
    """Return the columns of samples that have all fields, one filter and the same metrics with finite values; else None."""
    first = part[0].get("metrics")
    if not (isinstance(first, list) and first and all(type(name) is str for name in first)):
        return None
    names = [*dict.fromkeys(first)]
    try:
        columns = [*zip(*map(itemgetter(*_PLAIN, *names), part), strict=True)]
    except KeyError:
        return None
    ids, inputs, expected, arguments, filters, metrics, hashes = columns[: len(_PLAIN)]
    scores = dict(zip(names, columns[len(_PLAIN) :], strict=True))
    is_plain = (
        type(filters[0]) is str
        and filters.count(filters[0]) == metrics.count(first) == len(part)
        and all(hashes)
        and not {_PERPLEXITY, *_UNITS} & {*names}
        and all(map(are_finite, scores.values()))
    )
    if not is_plain:
        return None
    by_filter = _filter_suffix(filters[0])
    prompts, generations = zip(*map(_first_request, arguments), strict=True)
    return PlainRows(
        samples=[*map(str, ids)],
        scores={name + by_filter: [*map(float, values)] for name, values in scores.items()},
        inputs=inputs,
        expected=expected,
        prompts=[*map(as_messages, prompts)],
        prompts_sha256=hashes,
        settings=[{**settings, **generation_settings(generation)} for generation, _ in groupby(generations)],
    )


def _filter_suffix(name: Any) -> str:
    return "" if name == "none" else f".{name}"


def _lm_eval_row(sample: Mapping[str, Any], settings: Mapping[str, Any], *, with_reply: bool = True) -> Row:
    by_filter = _filter_suffix(sample.get("filter", "none"))
    values = {
        _lm_eval_name(name, sample) + by_filter: value
        for name in _lm_eval_metrics(sample)
        if (value := _lm_eval_value(name, sample)) is not None
    }
    prompt, generation = _first_request(sample.get("arguments"))
    hashed = sample.get("prompt_hash") or (None if prompt is None else hashlib.sha256(prompt.encode()).hexdigest())
    return Row(
        sample=str(sample["doc_id"]),
        scores={name: value for name, value in values.items() if math.isfinite(value)},
        lost={name: f"the value is {value}" for name, value in values.items() if not math.isfinite(value)},
        reply=Reply(text=_lm_eval_text(sample["filtered_resps"])) if with_reply else None,
        input=sample.get("doc"),
        expected=sample.get("target"),
        prompt=as_messages(prompt),
        parameters={**settings, **generation_settings(generation)},
        prompt_sha256=hashed or "",
    )


def _first_request(arguments: Any) -> tuple[str | None, Mapping[str, Any]]:
    """Return the prompt of a sample's first request, and its settings: a document is put to a model in many ways.

    Versions before 0.4.5 write lists of arguments in place of mappings.
    """
    first = next(iter(arguments.values()), None) if type(arguments) is dict else None
    # Nearly all are so, and the loop takes three times as long.
    if type(first) is dict and [*map(type, first.values())] == [str, dict]:
        return tuple(first.values())
    prompt, settings = None, None
    for part in _entries(next(iter(_entries(arguments)), None)):
        # The messages of an API for chats are a text in a list.
        part = part[0] if isinstance(part, list) and len(part) == 1 else part
        if prompt is None and isinstance(part, str):
            prompt = part
        elif settings is None and isinstance(part, dict):
            settings = part
    return prompt, settings or {}


def _entries(arguments: Any) -> Iterable[Any]:
    return arguments.values() if isinstance(arguments, dict) else arguments if isinstance(arguments, list) else ()


def _lm_eval_metrics(sample: Mapping[str, Any]) -> list[str]:
    """Return the metrics of a sample. Versions before 0.4.7 do not list them: there, every unknown field is one."""
    return [name for name in sample.get("metrics") or set(sample) - _NO_METRICS if name in sample]


def _lm_eval_name(metric: str, sample: Mapping[str, Any]) -> str:
    """Return the name of a sample's value. A perplexity is at least 1: a value of at most 0 is a log-likelihood."""
    if metric in _UNITS and not _is_score(sample[metric]):
        return f"{_LOG_LIKELIHOOD}_per_{_UNITS[metric]}"
    return _LOG_LIKELIHOOD if metric == _PERPLEXITY and not sample[metric] > 0 else metric


def _lm_eval_value(metric: str, sample: Mapping[str, Any]) -> float | None:
    """Return a sample's score; of a perplexity, its log-likelihood for each word or byte. None: of a whole corpus only."""
    value = sample[metric]
    if _is_score(value):
        return float(value)
    is_pair = isinstance(value, list) and len(value) == 2 and all(map(_is_score, value))
    return value[0] / value[1] if metric in _UNITS and is_pair and value[1] else None


def _is_score(value: Any) -> bool:
    """Return whether a value is a score. Metrics of a whole corpus, such as perplexity, have a list here."""
    return isinstance(value, int | float)


def _lm_eval_left_out(source: Source) -> Iterator[str]:
    _, first = (source.rows or [(0, {})])[0]
    for name in _lm_eval_metrics(first):
        if _lm_eval_value(name, first) is None:
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


def _lm_eval_facts(metrics: Iterable[str], higher: Mapping[str, bool]) -> dict[str, MetricFacts]:
    """Return facts with the direction that the task declares, or else that of the metric's name without its filter.

    Tasks do not declare ranges.
    """
    facts: dict[str, MetricFacts] = {}
    for name in metrics:
        plain = name.partition(".")[0]
        if plain in higher or is_known(plain):
            by_name = facts_by_name(plain)
            up = higher.get(plain, by_name.direction == "higher")
            facts[name] = replace(by_name, name=name, direction="higher" if up else "lower")
    return facts
