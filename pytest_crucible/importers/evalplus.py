"""Results of EvalPlus: the `*_eval_results.json` of `evalplus.evaluate` (https://github.com/evalplus/evalplus)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_crucible.importers.results import ParsedFile, Results, Row
from pytest_crucible.importers.source import Source
from pytest_crucible.records import MetricFacts, Reply, Value

BASE, PLUS = "base", "plus"
_PASS = "pass"
_END = "eval_results"
Record = Mapping[str, Any]


def recognises(source: Source) -> bool:
    """Return whether the document has the hash of a dataset, and completions with the status of its tests."""
    document = source.document
    if not (isinstance(document, dict) and "hash" in document and isinstance(document.get("eval"), dict)):
        return False
    first = next(iter(document["eval"].values()), None)
    return isinstance(first, list) and bool(first) and _is_completion(first[0])


def _is_completion(value: Any) -> bool:
    return isinstance(value, dict) and {"solution", "base_status"} <= set(value)


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the file or its folder. The completions of a problem are repeats of its sample."""
    problems: Mapping[str, list[Record]] = source.document["eval"]
    rows = [
        _row(problem, repeat, completion, source.document["hash"])
        for problem, completions in problems.items()
        for repeat, completion in enumerate(completions)
    ]
    results = Results(
        task=next(iter(problems)).partition("/")[0],
        arm=source.path.stem.removesuffix(_END).rstrip("_") or source.path.resolve().parent.name,
        rows=rows,
        facts={name: MetricFacts(name=name, low=0.0, high=1.0) for name in (BASE, PLUS)},
        repeats=max(map(len, problems.values())),
    )
    return ParsedFile(version="", results=[results])


def _row(problem: str, repeat: int, completion: Record, dataset: str) -> Row:
    """Return the row of a completion. Problems of two versions of a dataset differ in their tests, although not in their ids."""
    base, plus = completion["base_status"], completion.get("plus_status")
    scores: dict[str, Value | None] = {BASE: base == _PASS} if base else {}
    if plus:
        # As EvalPlus counts: the further tests are passed by those that also pass the first.
        scores[PLUS] = base == plus == _PASS
    return Row(
        sample=problem,
        repeat=repeat,
        scores=scores,
        lost={} if base else {BASE: "no test has run"},
        reply=Reply(text=completion["solution"]),
        input={"problem": problem, "dataset": dataset},
    )
