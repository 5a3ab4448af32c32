"""Test runs of DeepEval: the JSON that `results_folder` (or DEEPEVAL_RESULTS_FOLDER) gets (https://deepeval.com)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_crucible.importers.results import ParsedFile, Results, Row, number_repeats
from pytest_crucible.importers.source import Source
from pytest_crucible.records import MetricFacts, Reply

# The key of the run in `.deepeval/.latest_test_run.json`.
_LATEST = "testRunData"
_CASES = ("testCases", "conversationalTestCases")


def recognises(source: Source) -> bool:
    """Return whether the document has test cases, of one turn or of several."""
    return isinstance(source.document, dict) and any(name in source.document for name in (*_CASES, _LATEST))


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the identifier of the run. DeepEval's files do not record the version that wrote them."""
    document = source.document.get(_LATEST, source.document)
    cases = [case for kind in _CASES for case in document.get(kind) or ()]
    rows = number_repeats([_row(case) for case in cases])
    results = Results(
        task=document.get("datasetAlias") or document.get("testFile") or "deepeval",
        arm=document.get("identifier") or (document.get("hyperparameters") or {}).get("model") or source.path.stem,
        rows=rows,
        facts=_facts(measured for case in cases for measured in case.get("metricsData") or ()),
        repeats=max((row.repeat for row in rows), default=0) + 1,
    )
    return ParsedFile(version="", results=[results])


def _row(case: Mapping[str, Any]) -> Row:
    measured = case.get("metricsData") or ()
    text = case.get("actualOutput")
    return Row(
        sample=case["name"],
        scores={metric["name"]: float(metric["score"]) for metric in measured if metric.get("score") is not None},
        lost={metric["name"]: metric.get("error") or "no score" for metric in measured if metric.get("score") is None},
        reply=None
        if text is None
        else Reply(text=text, latency_s=case.get("completionTime"), cost_usd=case.get("tokenCost")),
        input=case.get("input") or case.get("scenario"),
        expected=case.get("expectedOutput") or case.get("expectedOutcome"),
        metadata=case.get("additionalMetadata") or {},
    )


def _facts(measured: Iterable[Mapping[str, Any]]) -> dict[str, MetricFacts]:
    """Return facts of metrics from 0 to 1. The direction of some, such as bias, has changed between DeepEval's versions.

    The cases that passed their threshold show it.
    """
    lower: dict[str, bool] = {}
    for metric in measured:
        lower[metric["name"]] = lower.get(metric["name"], False) or _passes_below(metric)
    return {
        name: MetricFacts(name=name, direction="lower" if less else "higher", low=0.0, high=1.0)
        for name, less in lower.items()
    }


def _passes_below(measured: Mapping[str, Any]) -> bool:
    """Return whether the metric passed below its threshold, or failed above it: lower values are then better."""
    score, threshold, success = (measured.get(name) for name in ("score", "threshold", "success"))
    # A score equal to its threshold does not show the metric's direction.
    if score is None or threshold is None or success is None or score == threshold:
        return False
    return bool((score < threshold) == success)
