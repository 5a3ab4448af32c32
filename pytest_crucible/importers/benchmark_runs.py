"""Runs of HELM, OpenCompass and EvalPlus, which are folders of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.importers.generation import finish_of, generation_settings
from pytest_crucible.importers.results import (
    NoSampleScoresError,
    ParsedFile,
    Row,
    Source,
    as_text,
    one_arm,
    split_values,
)
from pytest_crucible.importers.sources import read_beside
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError

Record = Mapping[str, Any]

# HELM: `per_instance_stats.json`, with `run_spec.json` and `scenario_state.json` next to it (https://crfm.stanford.edu/helm/)

# Statistics that describe the request and not the answer.
_BOOKKEEPING = re.compile(
    r"num_.*|training_.*|batch_size|finish_reason_.*|prompt_truncated|.*runtime.*|max_prob|logprob",
    # With line breaks, .* always ends at the end: else a name of many runtimes and a line break takes quadratic time.
    re.DOTALL,
)
# Shares of right answers, under the names of HELM's own metrics: from 0 to 1, and more is better.
_SHARES = re.compile(r"((quasi_)?(prefix_)?exact_match|f1_score|rouge_.|bleu_.)(@\d+)?(\..*)?")
# Parts of a run's name that name the model.
_MODEL = ("model=", "model_deployment=")
# Instance, repeat and the name of a perturbation.
Unit = tuple[str, int, str]


def recognises_helm(source: Source) -> bool:
    """Return whether it is a list of instances with statistics."""
    document = source.document
    first = document[0] if isinstance(document, list) and document else None
    return isinstance(first, dict) and {"instance_id", "train_trial_index", "stats"} <= set(first)


def read_helm(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm on one task, with names from `run_spec.json`. Without it, the folder's name is the model's."""
    states = dict(_states(read_beside(source.path.with_name("scenario_state.json"))))
    spec = read_beside(source.path.with_name("run_spec.json"))
    adapter = spec.get("adapter_spec") or {}
    examples = {"num_fewshot": adapter["max_train_instances"]} if "max_train_instances" in adapter else {}
    rows: dict[tuple[str, int], Row] = {}
    for record in source.document:
        row = _helm_row(record, states, {**examples, **generation_settings(adapter)})
        earlier = rows.get((row.sample, row.repeat), row)
        if earlier is not row and set(earlier.scores) & set(row.scores):
            raise SpecError(
                f"{source.path} has instance {row.sample!r} twice in trial {row.repeat}: ids must be unique"
            )
        # Perturbed twins of an instance give further metrics of the same sample; its input is the original.
        original = row if not _perturbation(record) else earlier
        rows[row.sample, row.repeat] = replace(original, scores={**earlier.scores, **row.scores})
    return one_arm(
        task=_task(spec.get("name") or "helm"),
        arm=adapter["model"] if spec else source.path.resolve().parent.name,
        rows=list(rows.values()),
        weights={"model": adapter["model"]} if spec else {},
        facts=_facts(name for row in rows.values() for name in row.scores),
    )


def _task(name: str) -> str:
    """Return a run's name without its model: `mmlu:subject=law,model=x` becomes `mmlu:subject=law`."""
    scenario, _, arguments = name.partition(":")
    others = [argument for argument in arguments.split(",") if argument and not argument.startswith(_MODEL)]
    return ":".join([scenario, *([",".join(others)] if others else [])])


def _helm_row(record: Record, states: Mapping[Unit, Record], settings: Record) -> Row:
    """Return the row of an instance. HELM records an undefined statistic with a count of 0: it does not apply."""
    perturbation = _perturbation(record)
    suffix = f".{perturbation}" if perturbation else ""
    scores: dict[str, Value | None] = {}
    for stat in record["stats"]:
        if not _BOOKKEEPING.fullmatch(stat["name"]["name"]):
            scores[stat["name"]["name"] + suffix] = stat["mean"] if stat["count"] else None
    state = states.get((record["instance_id"], record["train_trial_index"], perturbation), {})
    request = _read_request(state) or {"parameters": settings}
    request["parameters"] = {**settings, **request["parameters"]}
    return Row(sample=record["instance_id"], repeat=record["train_trial_index"], scores=scores, **request)


def _facts(names: Iterable[str]) -> dict[str, MetricFacts]:
    return {name: MetricFacts(name=name, low=0.0, high=1.0) for name in names if _SHARES.fullmatch(name)}


def _perturbation(record: Record) -> str:
    return str((record.get("perturbation") or {}).get("name", ""))


def _states(document: Record) -> Iterator[tuple[Unit, Record]]:
    """Yield each request with its instance. A sample of several requests has no single reply: it keeps the first."""
    for state in reversed(document.get("request_states") or ()):
        instance = state["instance"]
        yield (instance["id"], state["train_trial_index"], _perturbation(instance)), state


def _read_request(state: Record) -> dict[str, Any]:
    if not state:
        return {}
    references = state["instance"].get("references") or ()
    completions = (state.get("result") or {}).get("completions") or ()
    right = [reference["output"]["text"] for reference in references if "correct" in reference.get("tags", ())]
    request, reply = state.get("request") or {}, None
    if completions:
        reason = (completions[0].get("finish_reason") or {}).get("reason")
        latency = state["result"].get("request_time")
        reply = Reply(text=completions[0]["text"], latency_s=latency, finish=finish_of(reason))
    return {
        "input": state["instance"]["input"].get("text"),
        "expected": right,
        "reply": reply,
        "prompt": request.get("messages") or request.get("prompt"),
        "parameters": generation_settings(request),
    }


# OpenCompass: `results/MODEL/DATASET.json` of a run, beside `predictions/` (https://opencompass.readthedocs.io)

# The fields that OpenCompass itself counts as right or wrong (icl_base_evaluator.py).
_CORRECT = ("correct", "is_correct", "cascade_correct")


def recognises_opencompass(source: Source) -> bool:
    """Return whether the document has details: of examples, or of prompts under their numbers."""
    details = source.document.get("details") if isinstance(source.document, dict) else None
    if isinstance(details, list):
        return bool(details) and "example_abbr" in details[0]
    return isinstance(details, dict) and details.get("type") in ("GEN", "PPL") and "0" in details


def read_opencompass(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm on one task, named by folder and file. The runs of a dataset with `n` are repeats of its samples."""
    examples = list(_examples(source.document["details"]))
    metrics = [name for name in _CORRECT if any(name in example for _, example in examples)]
    if not metrics:
        raise NoSampleScoresError(
            f"{source.path} has details, but no sample is right or wrong: its evaluator has only a total. Choose one with "
            "details, such as AccwithDetailsEvaluator, or write a table with a row for each sample"
        )
    repeats = max(len(example[name]) for _, example in examples for name in metrics if name in example)
    predictions = _predictions(source)
    rows = [
        _opencompass_row(sample, repeat, example, metrics, predictions.get(str(repeat * len(examples) + k)))
        for k, (sample, example) in enumerate(examples)
        for repeat in range(repeats)
    ]
    return one_arm(
        task=source.path.stem,
        arm=source.path.resolve().parent.name,
        rows=rows,
        facts={name: MetricFacts(name=name, low=0.0, high=1.0) for name in metrics},
    )


def _examples(details: Any) -> Iterator[tuple[str, Mapping[str, Sequence[Any]]]]:
    if isinstance(details, list):
        for example in details:
            yield example["example_abbr"], {name: cell for name, cell in example.items() if isinstance(cell, list)}
    else:
        for number, entry in details.items():
            if number != "type":
                yield number, {name: [cell] for name, cell in entry.items()}


def _opencompass_row(
    sample: str, repeat: int, example: Mapping[str, Sequence[Any]], metrics: Sequence[str], prediction: Record | None
) -> Row:
    """Return the row of a sample in one repeat. Its prompt is not its identity: each model has a template of its own."""
    values = {name: next(iter(example.get(name, ())[repeat : repeat + 1]), None) for name in metrics}
    return Row(
        sample=sample,
        repeat=repeat,
        **split_values(values, "the evaluator gave no value"),
        reply=Reply(text=as_text(prediction["prediction"])) if prediction else None,
        prompt=prediction.get("origin_prompt") if prediction else None,
        expected=prediction.get("gold") if prediction else None,
    )


def _predictions(source: Source) -> Record:
    """Return the replies by their position: all samples, then all samples again for each further repeat."""
    path = source.path.resolve()
    results = path.parent.parent
    beside = results.parent / "predictions" / path.parent.name / path.name
    return read_beside(beside) if results.name == "results" else {}


# EvalPlus: the `*_eval_results.json` of `evalplus.evaluate` (https://github.com/evalplus/evalplus)

BASE, PLUS = "base", "plus"
_PASS = "pass"
_END = "eval_results"


def recognises_evalplus(source: Source) -> bool:
    """Return whether the document has the hash of a dataset, and completions with the status of its tests."""
    document = source.document
    if not (isinstance(document, dict) and "hash" in document and isinstance(document.get("eval"), dict)):
        return False
    first = next(iter(document["eval"].values()), None)
    completion = first[0] if isinstance(first, list) and first else None
    return isinstance(completion, dict) and {"solution", "base_status"} <= set(completion)


def read_evalplus(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the file or its folder. The completions of a problem are repeats of its sample."""
    problems: Mapping[str, list[Record]] = source.document["eval"]
    rows = [
        _evalplus_row(problem, repeat, completion, source.document["hash"])
        for problem, completions in problems.items()
        for repeat, completion in enumerate(completions)
    ]
    return one_arm(
        task=next(iter(problems)).partition("/")[0],
        arm=source.path.stem.removesuffix(_END).rstrip("_") or source.path.resolve().parent.name,
        rows=rows,
        facts={name: MetricFacts(name=name, low=0.0, high=1.0) for name in (BASE, PLUS)},
    )


def _evalplus_row(problem: str, repeat: int, completion: Record, dataset: str) -> Row:
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
