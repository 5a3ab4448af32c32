"""Results of promptfoo and of pydantic-evals."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from pytest_crucible.importers.generation import as_messages, finish_of, generation_settings
from pytest_crucible.importers.results import ParsedFile, Results, Row, Source, as_text, by_arm, number_repeats, one_arm
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical
from pytest_crucible.stats.number_format import quantity

# The format version that this module reads.
_FORMAT = 3
# The `failureReason` of a request without a reply; 1 is a failed assertion.
_ERROR = 2


def recognises_promptfoo(source: Source) -> bool:
    """Return whether JSON has an `evalId` next to its results, or JSON lines are promptfoo's results."""
    document = source.document
    if source.rows is not None:
        return bool(source.rows) and {"promptIdx", "testIdx", "testCase", "provider"} <= set(source.rows[0][1])
    return isinstance(document, dict) and "evalId" in document and isinstance(document.get("results"), dict)


def read_promptfoo(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return an arm for each provider (and prompt, where there are several), in the order of the configuration."""
    document = source.document or {}
    unsorted = _promptfoo_results_of(source) if document else [row for _, row in source.rows or ()]
    results = sorted(unsorted, key=lambda result: (result["promptIdx"], result["testIdx"]))
    prompts, names = len({result["prompt"]["label"] for result in results}), _test_names(results)
    settings = dict(_provider_settings(document.get("config", {})))
    arms = by_arm((_provider_name(result, prompts), _promptfoo_row(result, names, settings)) for result in results)
    task = document.get("config", {}).get("description") or "promptfoo"
    declared = (document.get("runtimeOptions") or {}).get("repeat") or 0
    models = {_provider_name(result, prompts): str(result["provider"]["id"]) for result in results}
    numbered = {arm: number_repeats(rows, declared) for arm, rows in arms.items()}
    of_arms = [_promptfoo_results(task, arm, rows, models[arm]) for arm, rows in numbered.items()]
    return ParsedFile(
        version=document.get("metadata", {}).get("promptfooVersion", ""),
        results=[results for results, _ in of_arms],
        notes=[note for _, note in of_arms if note],
    )


def _promptfoo_results_of(source: Source) -> Sequence[Mapping[str, Any]]:
    document = source.document["results"]
    if document.get("version") != _FORMAT:
        raise SpecError(
            f"{source.path} has results of promptfoo's format {document.get('version')!r}, and format {_FORMAT} can be read: "
            "export it again with a current promptfoo"
        )
    results: Sequence[Mapping[str, Any]] = document["results"]
    return results


def _promptfoo_results(task: str, arm: str, rows: Sequence[Row], model: str) -> tuple[Results, str]:
    """Return an arm, and a note on what was left out of it. With one assertion a test, its score repeats whether it passed."""
    named = {name for row in rows for name in row.scores}
    # Named scores are those of assertions, of which more is better.
    facts = {name: MetricFacts(name=name) for name in named}
    facts["score"] = MetricFacts(name="score", low=0.0, high=1.0)
    drawn = _without_copies(rows)
    copies = len(rows) - len(drawn)
    results = Results(
        task=task,
        arm=arm,
        rows=drawn,
        facts=facts,
        repeats=max(row.repeat for row in drawn) + 1,
        has_uneven_repeats=copies > 0,
        one_claim={"score": "pass"},
        weights={"model": model},
    )
    note = f"{arm}: {quantity(copies, 'repeat')} left out: an earlier reply again, from promptfoo's cache"
    return results, note if copies else ""


def _without_copies(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without repeats whose reply is an earlier one of their sample again, from promptfoo's cache."""
    texts: dict[str, list[str]] = {}
    drawn = []
    for row in rows:
        earlier = texts.setdefault(row.sample, [])
        text = row.reply.text if row.reply else ""
        if row.reply is None or not (row.reply.cached and text in earlier):
            drawn.append(replace(row, repeat=len(earlier)))
            earlier.append(text)
    return drawn


def _provider_settings(config: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each provider, by label or id, with its generation settings. One may stand as `{id: {"config": ...}}`."""
    providers = config.get("providers")
    for provider in providers if isinstance(providers, list) else ():
        entries = [provider] if isinstance(provider, dict) and "id" in provider else []
        if isinstance(provider, dict) and not entries:
            entries = [{"id": name, **options} for name, options in provider.items() if isinstance(options, dict)]
        for entry in entries:
            yield str(entry.get("label") or entry["id"]), generation_settings(entry.get("config") or {})


def _provider_name(result: Mapping[str, Any], prompts: int) -> str:
    provider = result["provider"]
    name = str(provider.get("label") or provider["id"])
    return f"{name} / {result['prompt']['label']}" if prompts > 1 else name


def _test_names(results: Sequence[Mapping[str, Any]]) -> Mapping[tuple[str, str], str]:
    """Return test -> sample id: the tests' descriptions where these are unique, or else the variables."""
    tests = dict.fromkeys(map(_test, results))
    descriptions = {description for _, description in tests}
    own = all(descriptions) and len(descriptions) == len(tests)
    return {(variables, description): description if own else variables for variables, description in tests}


def _test(result: Mapping[str, Any]) -> tuple[str, str]:
    """Return the variables and the description of a result's test: tests of one prompt may check different things."""
    return canonical(result.get("vars", {})), str(result["testCase"].get("description") or "")


def _promptfoo_row(
    result: Mapping[str, Any], names: Mapping[tuple[str, str], str], settings: Mapping[str, Mapping[str, Any]]
) -> Row:
    variables, failed = result.get("vars", {}), result.get("failureReason") == _ERROR
    scores: dict[str, Value | None] = {"pass": bool(result["success"]), "score": float(result["score"])}
    scores |= _named_scores(result)
    lost = {} if failed else dict(_judge_failures(result.get("gradingResult") or {}))
    provider, own = result["provider"], result["prompt"].get("config")
    return Row(
        sample=names[_test(result)],
        scores={} if failed else {name: value for name, value in scores.items() if name not in lost},
        lost=lost,
        error=str(result.get("error") or "error").splitlines()[0] if failed else "",
        reply=_promptfoo_reply(result),
        input=variables,
        metadata=result["testCase"].get("metadata") or {},
        prompt=as_messages(result["prompt"].get("raw")),
        parameters={
            **settings.get(str(provider.get("label") or provider["id"]), {}),
            **generation_settings(own if isinstance(own, dict) else {}),
        },
    )


def _named_scores(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores of metrics. promptfoo writes 0 for those of assertions without weight: theirs are the assertions' means."""
    grading, named = result.get("gradingResult") or {}, dict(result.get("namedScores") or {})
    for name, weight in (grading.get("namedScoreWeights") or {}).items():
        components = grading.get("componentResults") or ()
        of_metric = [part["score"] for part in components if (part.get("assertion") or {}).get("metric") == name]
        if weight == 0 and of_metric:
            named[name] = fmean(of_metric)
    return {name: float(score) for name, score in named.items()}


def _judge_failures(grading: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the scores that a judge's failure leaves unknown: its metric's and the result's. promptfoo itself counts them as 0."""
    for component in grading.get("componentResults") or ():
        yield from _judge_failures(component)
        if (component.get("metadata") or {}).get("graderError"):
            for name in ("pass", "score", (component.get("assertion") or {}).get("metric")):
                if name:
                    yield name, str(component.get("reason") or "the judge failed").partition("\n")[0]


def _promptfoo_reply(result: Mapping[str, Any]) -> Reply | None:
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
        finish=finish_of(response.get("finishReason")),
        cached=bool(response.get("cached")),
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


_KINDS = ("assertions", "scores", "labels")
_RUN = re.compile(r" \[(\d+)/\d+\]$")
Case = Mapping[str, Any]


def recognises_pydantic(source: Source) -> bool:
    """Return whether the document has a name and cases with evaluations, or only cases that failed."""
    document = source.document
    if not (isinstance(document, dict) and isinstance(document.get("name"), str) and "cases" in document):
        return False
    keys = {"cases": {*_KINDS, "task_duration"}, "failures": {"error_message", "error_stacktrace", "expected_output"}}
    parts = ((case, own) for name, own in keys.items() for case in _cases(document, name))
    return any(isinstance(case, dict) and own <= set(case) for case, own in parts)


def read_pydantic(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the experiment. Reports do not record the version that wrote them."""
    document = source.document
    cases, failures = _cases(document, "cases"), _cases(document, "failures")
    names, measured = _names_by_evaluator(cases), _task_metrics(cases)
    about = document.get("experiment_metadata") or {}
    rows = [_answered_row(case, names, measured) for case in cases] + [
        Row(error=case["error_message"].partition("\n")[0] or "error", **_sample(case)) for case in failures
    ]
    shadowed = {name for case in cases for name in case.get("metrics") or () if name not in measured}
    notes = [f"metric {name!r} of the task has the name of an evaluation, left out" for name in sorted(shadowed)]
    task = document.get("dataset_name") or "pydantic-evals"
    rows = [replace(row, parameters=generation_settings(about)) for row in rows]
    weights = {"model": str(about["model"])} if about.get("model") else {}
    facts = _assertion_facts(cases)
    return one_arm(task=task, arm=document["name"], rows=rows, facts=facts, weights=weights, notes=notes)


def _cases(document: Mapping[str, Any], key: str) -> Sequence[Case]:
    cases = document.get(key)
    return cases if isinstance(cases, list) else ()


def _answered_row(case: Case, names: Mapping[str, list[str]], measured: list[str]) -> Row:
    """Return the row of a case that was answered. A metric that it lacks does not apply: an evaluator may give none."""
    lost = {
        name: failure["error_message"]
        for failure in _failures(case)
        for name in (names.get(canonical(failure["source"])) or [failure["name"]])
    }
    values: dict[str, Value | None] = dict.fromkeys([*chain.from_iterable(names.values()), *measured])
    values |= {name: case["metrics"][name] for name in measured if name in case["metrics"]}
    for evaluation, result in _evaluations(case):
        # Where an evaluator fails, the next of its name gets that name without a suffix.
        usual = names.get(canonical(result["source"]), []) if evaluation in lost else ()
        name = next((name for name in usual if name not in lost), evaluation)
        # Older versions accepted NaN, which their JSON writes as null.
        if result["value"] is None:
            lost.setdefault(name, "the evaluator gave no value")
        else:
            values[name] = result["value"]
    return Row(
        scores={name: value for name, value in values.items() if name not in lost},
        lost=lost,
        reply=_case_reply(case),
        **_sample(case),
    )


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


def _case_reply(case: Case) -> Reply:
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
    for name, result in (entry for case in cases if not _failures(case) for entry in _evaluations(case)):
        names.setdefault(canonical(result["source"]), {})[name] = None
    return {evaluator: list(metrics) for evaluator, metrics in names.items()}


def _task_metrics(cases: Sequence[Case]) -> list[str]:
    """Return the task's own measurements, without names that an evaluation uses."""
    evaluated = {name for case in cases for name, _ in _evaluations(case)}
    return list(dict.fromkeys(name for case in cases for name in case.get("metrics") or () if name not in evaluated))


def _assertion_facts(cases: Sequence[Case]) -> dict[str, MetricFacts]:
    """Return facts of assertions, which pass or fail. Reports do not declare the direction of a score."""
    passing = {name for case in cases for name in case["assertions"]}
    others = {name for case in cases for kind in ("scores", "labels") for name in case[kind]}
    return {name: MetricFacts(name=name, low=0.0, high=1.0) for name in sorted(passing - others)}
