"""Reports of pydantic-evals, dumped with its `EvaluationReportAdapter` (https://ai.pydantic.dev/evals/)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pytest_crucible.importers.cells import as_text
from pytest_crucible.importers.results import ParsedFile, Row, one_arm
from pytest_crucible.importers.source import Source
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.serialize import canonical

_KINDS = ("assertions", "scores", "labels")
_RUN = re.compile(r" \[(\d+)/\d+\]$")
Case = Mapping[str, Any]


def recognises(source: Source) -> bool:
    """Return whether the document has a name and cases with evaluations, or only cases that failed."""
    document = source.document
    if not (isinstance(document, dict) and isinstance(document.get("name"), str) and "cases" in document):
        return False
    return any(map(_is_scored, _cases(document, "cases"))) or any(map(_is_failed, _cases(document, "failures")))


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the experiment. Reports do not record the version that wrote them."""
    document = source.document
    cases, failures = _cases(document, "cases"), _cases(document, "failures")
    names, measured = _names_by_evaluator(cases), _task_metrics(cases)
    rows = [_answered_row(case, names, measured) for case in cases] + [_failed_row(case) for case in failures]
    shadowed = {name for case in cases for name in case.get("metrics") or () if name not in measured}
    notes = [f"metric {name!r} of the task has the name of an evaluation, left out" for name in sorted(shadowed)]
    task = document.get("dataset_name") or "pydantic-evals"
    return one_arm(task=task, arm=document["name"], rows=rows, facts=_facts(cases), notes=notes)


def _cases(document: Mapping[str, Any], key: str) -> Sequence[Case]:
    cases = document.get(key)
    return cases if isinstance(cases, list) else ()


def _is_scored(case: Any) -> bool:
    return isinstance(case, dict) and {*_KINDS, "task_duration"} <= set(case)


def _is_failed(case: Any) -> bool:
    return isinstance(case, dict) and {"error_message", "error_stacktrace", "expected_output"} <= set(case)


def _answered_row(case: Case, names: Mapping[str, list[str]], measured: list[str]) -> Row:
    """Return the row of a case that was answered. A metric that it lacks does not apply: an evaluator may give none."""
    lost = {name: failure["error_message"] for failure in _failures(case) for name in _lost_names(failure, names)}
    values: dict[str, Value | None] = dict.fromkeys([*chain.from_iterable(names.values()), *measured])
    values |= {name: case["metrics"][name] for name in measured if name in case["metrics"]}
    for given, result in _evaluations(case):
        name = _own_name(given, names.get(canonical(result["source"]), []), lost)
        # Older versions accepted NaN, which their JSON writes as null.
        if result["value"] is None:
            lost.setdefault(name, "the evaluator gave no value")
        else:
            values[name] = result["value"]
    return Row(
        scores={name: value for name, value in values.items() if name not in lost},
        lost=lost,
        reply=_reply(case),
        **_sample(case),
    )


def _own_name(given: str, usual: list[str], lost: Mapping[str, str]) -> str:
    """Return the metric of an evaluation. Where an evaluator fails, the next of its name gets that name without a suffix."""
    return given if given not in lost else next((name for name in usual if name not in lost), given)


def _failed_row(case: Case) -> Row:
    return Row(error=case["error_message"].partition("\n")[0] or "error", **_sample(case))


def _sample(case: Case) -> dict[str, Any]:
    """Return the fields of the sample. With `repeat`, the name of a case ends in the number of the run."""
    source, run = case.get("source_case_name"), _RUN.search(case["name"])
    metadata = case.get("metadata")
    return {
        "sample": source or case["name"],
        "repeat": int(run[1]) - 1 if source and run else 0,
        "input": case.get("inputs"),
        "expected": case.get("expected_output"),
        "metadata": metadata if isinstance(metadata, dict) else {} if metadata is None else {"metadata": metadata},
    }


def _reply(case: Case) -> Reply:
    output, metrics = case.get("output"), case.get("metrics") or {}
    return Reply(
        text=as_text(output),
        input_tokens=metrics.get("input_tokens"),
        output_tokens=metrics.get("output_tokens"),
        latency_s=case.get("task_duration"),
        cost_usd=metrics.get("cost"),
    )


def _evaluations(case: Case) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in _KINDS:
        yield from case[kind].items()


def _failures(case: Case) -> Sequence[Mapping[str, Any]]:
    failures: Sequence[Mapping[str, Any]] = case.get("evaluator_failures") or ()
    return failures


def _names_by_evaluator(cases: Sequence[Case]) -> dict[str, list[str]]:
    """Return the metrics of each evaluator, from the cases where all evaluators worked."""
    names: dict[str, dict[str, None]] = {}
    for name, result in (one for case in cases if not _failures(case) for one in _evaluations(case)):
        names.setdefault(canonical(result["source"]), {})[name] = None
    return {evaluator: list(metrics) for evaluator, metrics in names.items()}


def _lost_names(failure: Mapping[str, Any], names: Mapping[str, list[str]]) -> list[str]:
    return names.get(canonical(failure["source"])) or [failure["name"]]


def _task_metrics(cases: Sequence[Case]) -> list[str]:
    """Return the task's own measurements, without names that an evaluation uses."""
    evaluated = {name for case in cases for name, _ in _evaluations(case)}
    return list(dict.fromkeys(name for case in cases for name in case.get("metrics") or () if name not in evaluated))


def _facts(cases: Sequence[Case]) -> dict[str, MetricFacts]:
    """Return facts of assertions, which pass or fail. Reports do not declare the direction of a score."""
    passing = {name for case in cases for name in case["assertions"]}
    others = {name for case in cases for kind in ("scores", "labels") for name in case[kind]}
    return {name: MetricFacts(name=name, low=0.0, high=1.0) for name in sorted(passing - others)}
