"""Results of promptfoo: `promptfoo eval -o results.json` (https://www.promptfoo.dev/docs/configuration/outputs/)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.importers.cells import as_text
from pytest_crucible.importers.results import ParsedFile, Results, Row, by_arm, number_repeats
from pytest_crucible.importers.source import Source
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical

# The format version that this module reads.
VERSION = 3
# The `failureReason` of a request without a reply; 1 is a failed assertion.
_ERROR = 2


def recognises(source: Source) -> bool:
    """Return whether JSON has an `evalId` next to its results, or JSON lines are promptfoo's results."""
    document = source.document
    if source.rows is not None:
        return bool(source.rows) and {"promptIdx", "testIdx", "testCase", "provider"} <= set(source.rows[0][1])
    return isinstance(document, dict) and "evalId" in document and isinstance(document.get("results"), dict)


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return an arm for each provider (and prompt, where there are several), in the order of the configuration."""
    document = source.document or {}
    unsorted = _whole(source) if document else [row for _, row in source.rows or ()]
    results = sorted(unsorted, key=lambda result: (result["promptIdx"], result["testIdx"]))
    prompts, names = len({result["prompt"]["label"] for result in results}), _names(results)
    arms = by_arm((_arm(result, prompts), _row(result, names)) for result in results)
    task = document.get("config", {}).get("description") or "promptfoo"
    return ParsedFile(
        version=document.get("metadata", {}).get("promptfooVersion", ""),
        results=[_results(task, arm, number_repeats(rows)) for arm, rows in arms.items()],
    )


def _whole(source: Source) -> Sequence[Mapping[str, Any]]:
    document = source.document["results"]
    if document.get("version") != VERSION:
        raise SpecError(
            f"{source.path} has results of promptfoo's format {document.get('version')!r}, and format {VERSION} can be read: "
            "export it again with a current promptfoo"
        )
    results: Sequence[Mapping[str, Any]] = document["results"]
    return results


def _results(task: str, arm: str, rows: Sequence[Row]) -> Results:
    named = {name for row in rows for name in row.scores}
    # Named scores are those of assertions, of which more is better.
    facts = {name: MetricFacts(name=name) for name in named}
    facts["score"] = MetricFacts(name="score", low=0.0, high=1.0)
    return Results(task=task, arm=arm, rows=rows, facts=facts, repeats=max(row.repeat for row in rows) + 1)


def _arm(result: Mapping[str, Any], prompts: int) -> str:
    provider = result["provider"]
    name = str(provider.get("label") or provider["id"])
    return f"{name} / {result['prompt']['label']}" if prompts > 1 else name


def _names(results: Sequence[Mapping[str, Any]]) -> Mapping[tuple[str, str], str]:
    """Return test -> sample id: the tests' descriptions where these are unique, or else the variables."""
    tests = dict.fromkeys(map(_test, results))
    descriptions = {description for _, description in tests}
    own = all(descriptions) and len(descriptions) == len(tests)
    return {(variables, description): description if own else variables for variables, description in tests}


def _test(result: Mapping[str, Any]) -> tuple[str, str]:
    """Return the variables and the description of a result's test: tests of one prompt may check different things."""
    return canonical(result.get("vars", {})), str(result["testCase"].get("description") or "")


def _row(result: Mapping[str, Any], names: Mapping[tuple[str, str], str]) -> Row:
    variables, failed = result.get("vars", {}), result.get("failureReason") == _ERROR
    scores: dict[str, Value | None] = {"pass": bool(result["success"]), "score": float(result["score"])}
    scores |= {name: float(score) for name, score in result.get("namedScores", {}).items()}
    lost = {} if failed else dict(_lost(result.get("gradingResult") or {}))
    return Row(
        sample=names[_test(result)],
        scores={} if failed else {name: value for name, value in scores.items() if name not in lost},
        lost=lost,
        error=str(result.get("error") or "error").splitlines()[0] if failed else "",
        reply=_reply(result),
        input=variables,
        metadata=result["testCase"].get("metadata") or {},
    )


def _lost(grading: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the scores that a judge's failure leaves unknown: its metric's and the result's. promptfoo itself counts them as 0."""
    for component in grading.get("componentResults") or ():
        yield from _lost(component)
        if (component.get("metadata") or {}).get("graderError"):
            for name in ("pass", "score", (component.get("assertion") or {}).get("metric")):
                if name:
                    yield name, str(component.get("reason") or "the judge failed").partition("\n")[0]


def _reply(result: Mapping[str, Any]) -> Reply | None:
    response = result.get("response") or {}
    if "output" not in response:
        return None
    output, usage, latency = response["output"], response.get("tokenUsage") or {}, result.get("latencyMs")
    return Reply(
        text=as_text(output),
        input_tokens=usage.get("prompt"),
        output_tokens=usage.get("completion"),
        # A reply from promptfoo's own cache was not requested in that run: its latency is left out.
        latency_s=None if latency is None or response.get("cached") else latency / 1000,
        cost_usd=response.get("cost"),
    )


_MARKED = re.compile(r"\[(PASS|FAIL|ERROR)\]")
_HEAD = re.compile(r"\[[^\]]+\] ")


def refuse_other_outputs(path: Path) -> None:
    """Raise SpecError for promptfoo's CSV, YAML and HTML, which have no structure that scores could be read from."""
    kind = _other_output(path)
    if kind:
        raise SpecError(
            f"{path} is promptfoo's {kind}: export JSON with `promptfoo export eval latest -o results.json`, "
            "or run `promptfoo eval -o results.json`"
        )


def _other_output(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".yaml", ".yml", ".html"):
        return ""
    # The head of the file shows it, and a report may be large.
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.read(100_000)
    if suffix == ".html":
        return "HTML" if "promptfoo" in text.lower() else ""
    if suffix != ".csv":
        return "YAML" if re.search(r"^evalId:", text, re.MULTILINE) else ""
    head = next(csv.reader(io.StringIO(text)), [])
    is_marked = _MARKED.search(text) is not None or "Grader Reason" in head
    return "CSV" if is_marked and any(map(_HEAD.match, head)) else ""
