"""Samples of lm-evaluation-harness: `lm_eval --log_samples --output_path` (https://github.com/EleutherAI/lm-evaluation-harness)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.importing.known import named
from pytest_crucible.importing.results import Found, Results, Row
from pytest_crucible.importing.source import Source, opened
from pytest_crucible.records import MetricFacts, Reply

_FILE = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")

_NO_METRICS = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
    | {"doc_hash", "prompt_hash", "target_hash", "task_name", "schedule"}
)


def recognises(source: Source) -> bool:
    """Samples have a document each; the results beside them say of every task which metrics are better high."""
    if source.rows is not None:
        return bool(source.rows) and {"doc_id", "resps", "filtered_resps"} <= set(source.rows[0][1])
    return isinstance(source.document, dict) and {"results", "higher_is_better"} <= set(source.document)


def read(source: Source, columns: Mapping[str, str]) -> Found:
    """The samples of one task, or, of the results of a run, those of all its tasks, which lie beside them."""
    if source.rows is not None:
        told = _Told.beside(source.path)
        return Found(version=told.version, results=[_results(source, told)], notes=list(_left_out(source)))
    told = _Told.of(source.document)
    date = source.path.stem.removeprefix("results_")
    found = [opened(path) for path in sorted(source.path.parent.glob(f"samples_*_{date}.jsonl"))]
    if not found:
        raise SpecError(
            f"{source.path} has totals only: run lm_eval with --log_samples, which writes samples beside it"
        )
    notes = [note for one in found for note in _left_out(one)]
    return Found(version=told.version, results=[_results(one, told) for one in found], notes=notes)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the results say of the samples."""

    arm: str
    version: str
    higher: Mapping[str, Mapping[str, bool]]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> _Told:
        arm = document.get("model_name") or document.get("model_source") or ""
        return cls(arm, document.get("lm_eval_version") or "", document.get("higher_is_better") or {})

    @classmethod
    def beside(cls, samples: Path) -> _Told:
        """Where they lie alone, the folder has the name of the model."""
        match = _FILE.fullmatch(samples.name)
        results = samples.with_name(f"results_{match['date']}.json") if match else None
        if results is None or not results.is_file():
            return cls(samples.resolve().parent.name, "", {})
        return cls.of(json.loads(results.read_text(encoding="utf-8")))


def _results(source: Source, told: _Told) -> Results:
    """The filters of a task, which read one reply in different ways, score the same samples."""
    match = _FILE.fullmatch(source.path.name)
    task = match["task"] if match else source.path.stem
    rows: dict[str, Row] = {}
    for line, given in source.rows or ():
        row = _row(given)
        earlier = rows.get(row.sample, row)
        if earlier is not row and {*row.scores, *row.lost} & {*earlier.scores, *earlier.lost}:
            raise SpecError(
                f"line {line} of {source.path} repeats doc_id {row.sample} under one filter: ids must be unique"
            )
        scores, lost = {**earlier.scores, **row.scores}, {**earlier.lost, **row.lost}
        rows[row.sample] = replace(earlier, scores=scores, lost=lost)
    return Results(
        task=task, arm=told.arm, rows=list(rows.values()), facts=_facts(rows.values(), told.higher.get(task, {}))
    )


def _row(given: Mapping[str, Any]) -> Row:
    by_filter = "" if given.get("filter", "none") == "none" else f".{given['filter']}"
    values = {name + by_filter: given[name] for name in _metrics(given) if _is_score(given[name])}
    return Row(
        sample=str(given["doc_id"]),
        scores={name: value for name, value in values.items() if math.isfinite(value)},
        lost={name: f"the value is {value}" for name, value in values.items() if not math.isfinite(value)},
        reply=Reply(text=_text(given["filtered_resps"])),
        input=given.get("doc"),
        expected=given.get("target"),
    )


def _metrics(given: Mapping[str, Any]) -> list[str]:
    """By their list, which versions before 0.4.7 do not write: there they are all that is nothing else."""
    return [name for name in given.get("metrics") or set(given) - _NO_METRICS if name in given]


def _is_score(value: Any) -> bool:
    """Metrics of a whole corpus, such as perplexity, have a list here."""
    return isinstance(value, int | float)


def _left_out(source: Source) -> Iterator[str]:
    _, first = (source.rows or [(0, {})])[0]
    for name in _metrics(first):
        if not _is_score(first[name]):
            yield f"metric {name!r} of {source.path.name} has no value of a single sample, left out"


def _text(resps: Sequence[Any]) -> str:
    """A generated reply; of a choice, the likelihoods."""
    first = resps[0] if resps else ""
    return first if isinstance(first, str) and len(resps) == 1 else json.dumps(resps)


def _facts(rows: Iterable[Row], higher: Mapping[str, bool]) -> dict[str, MetricFacts]:
    """Better high or low, as the task declares it; which values it can have, it does not."""
    names = dict.fromkeys(name for row in rows for name in (*row.scores, *row.lost))
    declared = {name: higher[plain] for name in names if (plain := name.partition(".")[0]) in higher}
    return {name: replace(named(name), direction="higher" if up else "lower") for name, up in declared.items()}
