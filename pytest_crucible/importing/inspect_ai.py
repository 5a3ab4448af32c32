"""Logs of Inspect: `.eval` archives and their JSON form (https://inspect.aisi.org.uk/eval-logs.html)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.importing.results import Found, Results, Row
from pytest_crucible.importing.source import Source
from pytest_crucible.records import MetricFacts, Reply, Value

VERSION = 2
"""Of the format, as the log says it."""
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Correct, incorrect, partially correct, no answer: as Inspect's `value_to_float` counts them."""
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_HEADER, _START, _SAMPLES = "header.json", "_journal/start.json", "samples/"


def recognises(source: Source) -> bool:
    """An archive with its header, or, of a run that was killed, with its beginning; a document with `eval` in it."""
    if source.archive is not None:
        return bool({_HEADER, _START} & set(source.archive.namelist()))
    return isinstance(source.document, dict) and "eval" in source.document and "version" in source.document


def read(source: Source, columns: Mapping[str, str]) -> Found:
    """One arm on one task."""
    header, samples = _archived(source) if source.archive is not None else _whole(source.document)
    if header.get("version") != VERSION:
        raise SpecError(
            f"{source.path} is an Inspect log of format {header.get('version')!r}, and format {VERSION} can be read: "
            "convert it with `inspect log convert`"
        )
    told = header["eval"]
    kept = [_lean(sample) for sample in samples]
    rows = _unscored([_row(sample) for sample in kept])
    dataset, config = told.get("dataset", {}), told.get("config", {})
    status = header.get("status", "started")
    results = Results(
        task=told["task"],
        arm=told["model"],
        rows=rows,
        facts={name: MetricFacts(name=name, low=0.0, high=1.0) for name in _graded(kept)},
        planned=[str(one) for one in dataset.get("sample_ids") or ()],
        epochs=max([config.get("epochs") or 1, *(row.epoch + 1 for row in rows)]),
        finished=status == "success",
    )
    ended = () if status == "success" else (f"the run of {source.path.name} ended as {status!r}",)
    return Found(version=told.get("packages", {}).get("inspect_ai", ""), results=[results], notes=ended)


def _archived(source: Source) -> tuple[Mapping[str, Any], Iterable[Mapping[str, Any]]]:
    assert source.archive is not None
    names = source.archive.namelist()
    header = source.member(_HEADER if _HEADER in names else _START)
    return header, (source.member(name) for name in names if name.startswith(_SAMPLES) and name.endswith(".json"))


def _whole(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], Iterable[Mapping[str, Any]]]:
    return document, document.get("samples") or ()


def _lean(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without its transcript, which is most of it."""
    return {name: value for name, value in sample.items() if name not in ("events", "messages", "attachments", "store")}


def _row(sample: Mapping[str, Any]) -> Row:
    """A sample that failed and was scored all the same keeps its scores; one that was declared invalid is as good as lost."""
    scores = dict(_scores(sample.get("scores") or {}))
    error, invalid = sample.get("error") or {}, sample.get("invalidation")
    why = "invalidated" if invalid else "" if scores else error.get("message", "")
    return Row(
        sample=str(sample["id"]),
        epoch=sample.get("epoch", 1) - 1,
        scores={name: value for name, value in scores.items() if value is not None},
        lost={name: "the scorer gave no value" for name, value in scores.items() if value is None},
        error=why,
        reply=_reply(sample.get("output") or {}),
        input=sample.get("input"),
        expected=sample.get("target"),
    )


def _unscored(rows: Sequence[Row]) -> list[Row]:
    """Every scorer scores every sample: one that has no score of it, and was answered, did not get to it."""
    names = {name for row in rows for name in (*row.scores, *row.lost)}
    missing = dict.fromkeys(names, "the scorer did not get to it")
    return [row if row.error else replace(row, lost={**_without(missing, row.scores), **row.lost}) for row in rows]


def _without(names: Mapping[str, str], scored: Iterable[str]) -> dict[str, str]:
    return {name: why for name, why in names.items() if name not in set(scored)}


def _scores(given: Mapping[str, Any]) -> Iterator[tuple[str, Value | None]]:
    """A scorer of several values has a metric for each: `scorer.value`."""
    for name, score in given.items():
        value = score["value"]
        if isinstance(value, dict):
            yield from ((f"{name}.{part}", _number(one)) for part, one in value.items())
        elif not isinstance(value, list):
            yield name, _number(value)


def _number(value: Any) -> Value | None:
    """None for what was left unscored, which is written as NaN. Text that is no grade stays text."""
    if isinstance(value, str):
        return GRADES.get(value, WORDS.get(value.lower(), value))
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, bool) else float(value)


def _graded(samples: Sequence[Mapping[str, Any]]) -> set[str]:
    """Scorers that give grades, of which there are three values."""
    given = (item for sample in samples for item in (sample.get("scores") or {}).items())
    return {name for name, score in given if isinstance(score["value"], str) and score["value"] in GRADES}


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
