"""Reports of DeepEval, OpenAI Evals, garak and Ragas."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from pytest_crucible.importers.metric_facts import facts_by_name, is_known
from pytest_crucible.importers.results import (
    ParsedFile,
    Row,
    Source,
    as_text,
    cell_value,
    number_repeats,
    one_arm,
    split_values,
)
from pytest_crucible.importers.tables import USUAL
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Direction, MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical

Record = Mapping[str, Any]

# DeepEval: the JSON that `results_folder` (or DEEPEVAL_RESULTS_FOLDER) gets (https://deepeval.com)

# The key of the run in `.deepeval/.latest_test_run.json`.
_LATEST = "testRunData"
_CASES = ("testCases", "conversationalTestCases")


def recognises_deepeval(source: Source) -> bool:
    """Return whether the document has test cases, of one turn or of several."""
    return isinstance(source.document, dict) and any(name in source.document for name in (*_CASES, _LATEST))


def read_deepeval(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the identifier of the run. DeepEval's files do not record the version that wrote them."""
    document = source.document.get(_LATEST, source.document)
    cases = [case for kind in _CASES for case in document.get(kind) or ()]
    settings = dict(document.get("hyperparameters") or {})
    model = settings.pop("model", None)
    rows = number_repeats([_deepeval_row(case, settings) for case in cases])
    return one_arm(
        task=document.get("datasetAlias") or document.get("testFile") or "deepeval",
        arm=document.get("identifier") or model or source.path.stem,
        rows=rows,
        weights={"model": str(model)} if model else {},
        facts=_deepeval_facts(measured for case in cases for measured in case.get("metricsData") or ()),
    )


def _deepeval_row(case: Mapping[str, Any], settings: Mapping[str, Any]) -> Row:
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
        # Versions before 4.3 have the first name.
        metadata=case.get("additionalMetadata") or case.get("metadata") or {},
        parameters=settings,
    )


def _deepeval_facts(measured: Iterable[Mapping[str, Any]]) -> dict[str, MetricFacts]:
    """Return facts of metrics from 0 to 1. The direction of some, such as bias, has changed between DeepEval's versions.

    Cases on both sides of their threshold show it: those that passed, or, where none has, those that failed.
    """
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for metric in measured:
        by_name.setdefault(metric["name"], []).append(metric)
    return {name: _deepeval_fact(name, of_name) for name, of_name in by_name.items()}


def _deepeval_fact(name: str, measured: Sequence[Mapping[str, Any]]) -> MetricFacts:
    # A case may fail on the good side for another reason than its score; it does not pass on the bad side.
    directions = _directions(measured, passed=True) or _directions(measured, passed=False)
    if len(directions) == 1:
        return MetricFacts(name=name, direction=directions.pop(), low=0.0, high=1.0)
    # Cases that contradict each other are stronger than the name.
    return replace(facts_by_name(name), low=0.0, high=1.0, is_directed=is_known(name) and not directions)


def _directions(measured: Sequence[Mapping[str, Any]], *, passed: bool) -> set[Direction]:
    """Return the directions that cases show which passed their threshold, or failed it. A score equal to it shows none."""
    directions: set[Direction] = set()
    for metric in measured:
        score, threshold, success = (metric.get(name) for name in ("score", "threshold", "success"))
        if score is None or threshold is None or success is None or score == threshold or bool(success) != passed:
            continue
        directions.add("higher" if (score > threshold) == passed else "lower")
    return directions


# OpenAI Evals: the JSON lines that `oaieval` writes (https://github.com/openai/evals)


def recognises_openai(source: Source) -> bool:
    """Return whether the first line has the specification of a run."""
    return bool(source.rows and "spec" in source.rows[0][1])


def read_openai(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm on one eval. The events `match` and `metrics` score a sample; `error` loses it."""
    rows = source.rows or ()
    spec = rows[0][1]["spec"]
    samples: dict[str, _Sample] = {}
    for _, event in rows:
        if event.get("sample_id") is not None:
            samples.setdefault(str(event["sample_id"]), _Sample()).take(event["type"], event.get("data") or {})
    if not samples:
        raise SpecError(
            f"{source.path} has no events of single samples, only its specification and report: log them too"
        )
    sample_rows = [row for name, sample in samples.items() for row in sample.rows(name)]
    arm = (spec.get("completion_fns") or [source.path.stem])[0]
    is_whole = any("final_report" in row for _, row in rows)
    notes = () if is_whole else (f"{source.path.name} has no final report: its run was cut short",)
    task = spec.get("eval_name") or spec["base_eval"]
    weights = {"model": arm} if spec.get("completion_fns") else {}
    return one_arm(task=task, arm=arm, rows=sample_rows, finished=is_whole, weights=weights, notes=notes)


@dataclass(slots=True)
class _Sample:
    """The events of one sample. A metric's second value belongs to the second repeat."""

    scores: dict[str, list[Value]] = field(default_factory=dict)
    prompt: Any = None
    replies: list[str] = field(default_factory=list)
    expected: Any = None
    error: str = ""

    def take(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "match":
            self.scores.setdefault("match", []).append(bool(data["correct"]))
            self.expected = data.get("expected", self.expected)
        elif kind == "metrics":
            for name, value in data.items():
                if isinstance(value, int | float):
                    self.scores.setdefault(name, []).append(value)
        elif kind == "sampling":
            self.prompt = data.get("prompt", self.prompt)
            self.replies.append(_openai_text(data.get("sampled")))
        elif kind == "error":
            self.error = str(data.get("message") or data.get("error") or "error")

    def rows(self, name: str) -> Iterator[Row]:
        if not self.scores:
            yield Row(sample=name, error=self.error or "no event scores it", input=self.prompt, prompt=self.prompt)
        for repeat in range(max(map(len, self.scores.values()), default=0)):
            yield Row(
                sample=name,
                repeat=repeat,
                scores={metric: values[repeat] for metric, values in self.scores.items() if repeat < len(values)},
                reply=Reply(text=self.replies[repeat]) if repeat < len(self.replies) else None,
                input=self.prompt,
                expected=self.expected,
                prompt=self.prompt,
            )


def _openai_text(sampled: Any) -> str:
    if isinstance(sampled, list) and len(sampled) == 1:
        return str(sampled[0])
    return "" if sampled is None else str(sampled)


# garak: `garak.*.report.jsonl`, one attempt a line with the scores of its detectors (https://garak.ai)

_EVALUATED = 2
"""The status of an attempt that detectors have scored. Its line repeats that of the reply alone."""


def recognises_garak(source: Source) -> bool:
    """Return whether the first line is the set-up of a run."""
    first = next(iter(source.records), {})
    return isinstance(first, dict) and first.get("entry_type") == "start_run setup" and "_config.version" in first


def read_garak(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the target: a metric for each detector, which is 1 if the attack succeeded."""
    setup, attempts = source.records[0], [row for row in source.records if row.get("entry_type") == "attempt"]
    scored = [attempt for attempt in attempts if attempt["status"] == _EVALUATED]
    detectors = sorted({name for attempt in scored for name in attempt["detector_results"]})
    rows = [row for attempt in scored for row in _rows(attempt, detectors)]
    return one_arm(
        task="garak",
        arm=setup.get("plugins.target_name") or setup.get("plugins.target_type") or source.path.stem,
        rows=rows,
        facts={name: MetricFacts(name=name, direction="lower", low=0.0, high=1.0) for name in detectors},
        planned=sorted({_name(attempt) for attempt in attempts}),
        finished=any(row.get("entry_type") == "completion" for row in source.records),
        weights={"model": setup["plugins.target_name"]} if setup.get("plugins.target_name") else {},
        version=setup["_config.version"],
    )


def _rows(attempt: Mapping[str, Any], detectors: Sequence[str]) -> Iterator[Row]:
    """Yield a row for each generation. A detector of another probe does not apply; one without a score has lost it."""
    results = attempt["detector_results"]
    for repeat, output in enumerate(attempt["outputs"]):
        # Newer versions write a generation that failed as a message without a text.
        text = None if output is None else output["text"]
        scores = {name: results[name][repeat] if name in results else None for name in detectors}
        lost = {name: "the detector gave no score" for name in results if scores[name] is None}
        messages = [{"role": turn["role"], "content": turn["content"]["text"]} for turn in attempt["prompt"]["turns"]]
        yield Row(
            sample=_name(attempt),
            repeat=repeat,
            scores={
                name: None if value is None else float(value) for name, value in scores.items() if name not in lost
            },
            lost=lost,
            error="the generator gave no reply" if text is None else "",
            reply=None if text is None else Reply(text=text),
            input=messages,
            prompt=messages,
            metadata={"probe": attempt["probe_classname"], "goal": attempt.get("goal")},
        )


def _name(attempt: Mapping[str, Any]) -> str:
    return f"{attempt['probe_classname']}:{attempt['seq']}"


# Ragas: the table of `evaluate(...).to_pandas()` as JSON lines, JSON, CSV or Parquet (https://docs.ragas.io)

_RAGAS = tomllib.loads(Path(__file__).with_name("ragas_columns.toml").read_text(encoding="utf-8"))
_SAMPLE = frozenset(_RAGAS["sample"])
# The columns of other tables that have a user's input, too.
_OF_OTHERS = {*USUAL["sample"], *USUAL["arm"], *USUAL["metric"], *USUAL["repeat"], *USUAL["task"]} - _SAMPLE


def recognises_ragas(source: Source) -> bool:
    """Return whether the first column is a user's input, another is of a sample too, and none names samples or arms."""
    # Cells beyond the header of a CSV file have the column None.
    names = [*map(str, (source.records or [{}])[0])]
    return (
        names[:1] == ["user_input"] and len(_SAMPLE & set(names)) > 1 and _OF_OTHERS.isdisjoint(map(str.lower, names))
    )


def read_ragas(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the file: a result has no name. A user's input that recurs is a repeat of its sample."""
    records = source.records
    metrics = [name for name in dict.fromkeys(name for record in records for name in record) if name not in _SAMPLE]
    if not metrics:
        raise SpecError(
            f"{source.path} has samples but no scores: write the table that `evaluate(...).to_pandas()` returns"
        )
    rows = number_repeats(_rename([_ragas_row(record, metrics) for record in records]))
    return one_arm(task="ragas", arm=source.path.stem, rows=rows, facts=_ragas_facts(metrics))


def _ragas_row(record: Record, metrics: Sequence[str]) -> Row:
    """Return the row of a sample. Ragas writes NaN if a metric failed."""
    values = {name: cell_value(record.get(name)) for name in metrics}
    response = record.get("response")
    return Row(
        sample=as_text(record["user_input"]),
        **split_values(values, "the metric gave no value"),
        reply=Reply(text=as_text(response)) if response is not None else None,
        input=record["user_input"],
        expected=record.get("reference"),
    )


def _rename(rows: Sequence[Row]) -> Sequence[Row]:
    """Return rows where samples that share their input, but not their reference, have names of their own."""
    references: dict[str, set[str]] = {}
    for row in rows:
        references.setdefault(row.sample, set()).add(canonical(row.expected))
    return [
        replace(row, sample=canonical([row.sample, row.expected])) if len(references[row.sample]) > 1 else row
        for row in rows
    ]


def _ragas_facts(metrics: Iterable[str]) -> dict[str, MetricFacts]:
    """Return facts of Ragas' own metrics. Their mode is in brackets: `factual_correctness(mode=f1)`."""
    facts: dict[str, MetricFacts] = {}
    for name in metrics:
        plain = name.partition("(")[0]
        if plain in (*_RAGAS["shares"], *_RAGAS["faults"]):
            direction: Direction = "lower" if plain in _RAGAS["faults"] else "higher"
            facts[name] = MetricFacts(name=name, direction=direction, low=0.0, high=1.0)
    return facts
