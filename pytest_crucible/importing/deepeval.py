"""Test runs of DeepEval: the JSON that `results_folder` (or DEEPEVAL_RESULTS_FOLDER) gets (https://deepeval.com)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_crucible.importing.results import Found, Results, Row, numbered
from pytest_crucible.importing.source import Source
from pytest_crucible.records import MetricFacts, Reply

_LATEST = "testRunData"
"""Under which `.deepeval/.latest_test_run.json` has its run."""
_CASES = ("testCases", "conversationalTestCases")


def recognises(source: Source) -> bool:
    """It has test cases, of one turn or of several."""
    return isinstance(source.document, dict) and any(name in source.document for name in (*_CASES, _LATEST))


def read(source: Source, columns: Mapping[str, str]) -> Found:
    """One arm, by the identifier of the run. DeepEval's files do not say which version wrote them."""
    document = source.document.get(_LATEST, source.document)
    cases = [case for kind in _CASES for case in document.get(kind) or ()]
    rows = numbered([_row(case) for case in cases])
    results = Results(
        task=document.get("datasetAlias") or document.get("testFile") or "deepeval",
        arm=document.get("identifier") or (document.get("hyperparameters") or {}).get("model") or source.path.stem,
        rows=rows,
        facts=_facts(measured for case in cases for measured in case.get("metricsData") or ()),
        epochs=max((row.epoch for row in rows), default=0) + 1,
    )
    return Found(version="", results=[results])


def _row(case: Mapping[str, Any]) -> Row:
    measured = case.get("metricsData") or ()
    said = case.get("actualOutput")
    return Row(
        sample=case["name"],
        scores={one["name"]: float(one["score"]) for one in measured if one.get("score") is not None},
        lost={one["name"]: one.get("error") or "no score" for one in measured if one.get("score") is None},
        reply=None
        if said is None
        else Reply(text=said, latency_s=case.get("completionTime"), cost_usd=case.get("tokenCost")),
        input=case.get("input") or case.get("scenario"),
        expected=case.get("expectedOutput") or case.get("expectedOutcome"),
    )


def _facts(measured: Iterable[Mapping[str, Any]]) -> dict[str, MetricFacts]:
    """From 0 to 1. Whether more is better has changed between its versions (of bias, say): what passed its threshold tells."""
    lower: dict[str, bool] = {}
    for one in measured:
        lower[one["name"]] = lower.get(one["name"], False) or _passes_below(one)
    return {
        name: MetricFacts(name=name, direction="lower" if less else "higher", low=0.0, high=1.0)
        for name, less in lower.items()
    }


def _passes_below(measured: Mapping[str, Any]) -> bool:
    """It passed and is below its threshold, or failed and is above."""
    score, threshold, success = (measured.get(name) for name in ("score", "threshold", "success"))
    if score is None or threshold is None or success is None or score == threshold:
        return False
    return bool((score < threshold) == success)
