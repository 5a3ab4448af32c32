"""Results of promptfoo: `promptfoo eval -o results.json` (https://www.promptfoo.dev/docs/configuration/outputs/)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.importing.results import Found, Results, Row, by_arm, numbered
from pytest_crucible.importing.source import Source
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.wire import canonical

VERSION = 3
"""Of the format, as the results say it."""
_ERROR = 2
"""The `failureReason` of what was not answered; 1 is an assertion that failed."""


def recognises(source: Source) -> bool:
    """JSON has an `evalId` beside its results; JSON lines are the results alone."""
    document = source.document
    if source.rows is not None:
        return bool(source.rows) and {"promptIdx", "testIdx", "testCase", "provider"} <= set(source.rows[0][1])
    return isinstance(document, dict) and "evalId" in document and isinstance(document.get("results"), dict)


def read(source: Source, columns: Mapping[str, str]) -> Found:
    """Every provider is an arm, in the order of the configuration and not of the answers; with several prompts, each of them is."""
    document = source.document or {}
    given = _whole(source) if document else [row for _, row in source.rows or ()]
    results = sorted(given, key=lambda one: (one["promptIdx"], one["testIdx"]))
    prompts, names = len({one["prompt"]["label"] for one in results}), _names(results)
    arms = by_arm((_arm(one, prompts), _row(one, names)) for one in results)
    task = document.get("config", {}).get("description") or "promptfoo"
    return Found(
        version=document.get("metadata", {}).get("promptfooVersion", ""),
        results=[_results(task, arm, numbered(rows)) for arm, rows in arms.items()],
    )


def _whole(source: Source) -> Sequence[Mapping[str, Any]]:
    given = source.document["results"]
    if given.get("version") != VERSION:
        raise SpecError(
            f"{source.path} has results of promptfoo's format {given.get('version')!r}, and format {VERSION} can be read: "
            "export it anew with a promptfoo of today"
        )
    results: Sequence[Mapping[str, Any]] = given["results"]
    return results


def _results(task: str, arm: str, rows: Sequence[Row]) -> Results:
    facts = {"score": MetricFacts(name="score", low=0.0, high=1.0)}
    return Results(task=task, arm=arm, rows=rows, facts=facts, epochs=max(row.epoch for row in rows) + 1)


def _arm(result: Mapping[str, Any], prompts: int) -> str:
    provider = result["provider"]
    name = str(provider.get("label") or provider["id"])
    return f"{name} / {result['prompt']['label']}" if prompts > 1 else name


def _names(results: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Variables -> the id of the sample: the test's description where that is one test's own. A repeat has the same ones."""
    said = {canonical(one.get("vars", {})): str(one["testCase"].get("description") or "") for one in results}
    own = all(said.values()) and len(set(said.values())) == len(said)
    return said if own else {asked: asked for asked in said}


def _row(result: Mapping[str, Any], names: Mapping[str, str]) -> Row:
    asked, failed = result.get("vars", {}), result.get("failureReason") == _ERROR
    scores: dict[str, Value | None] = {"pass": bool(result["success"]), "score": float(result["score"])}
    return Row(
        sample=names[canonical(asked)],
        scores={}
        if failed
        else {**scores, **{name: float(one) for name, one in result.get("namedScores", {}).items()}},
        error=str(result.get("error") or "error").splitlines()[0] if failed else "",
        reply=_reply(result),
        input=asked,
    )


def _reply(result: Mapping[str, Any]) -> Reply | None:
    response = result.get("response") or {}
    if "output" not in response:
        return None
    output, usage, latency = response["output"], response.get("tokenUsage") or {}, result.get("latencyMs")
    return Reply(
        text=output if isinstance(output, str) else canonical(output),
        input_tokens=usage.get("prompt"),
        output_tokens=usage.get("completion"),
        latency_s=None if latency is None or response.get("cached") else latency / 1000,
        cost_usd=response.get("cost"),
    )
