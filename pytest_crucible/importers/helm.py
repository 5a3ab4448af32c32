"""Runs of HELM: `per_instance_stats.json`, with `run_spec.json` and `scenario_state.json` next to it (https://crfm.stanford.edu/helm/)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pytest_crucible.importers.results import ParsedFile, Results, Row
from pytest_crucible.importers.source import Source, read_beside
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError

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
Record = Mapping[str, Any]
# Instance, repeat and the name of a perturbation.
Unit = tuple[str, int, str]


def recognises(source: Source) -> bool:
    """Return whether it is a list of instances with statistics."""
    document = source.document
    first = document[0] if isinstance(document, list) and document else None
    return isinstance(first, dict) and {"instance_id", "train_trial_index", "stats"} <= set(first)


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm on one task, with names from `run_spec.json`. Without it, the folder's name is the model's."""
    states = dict(_states(read_beside(source.path.with_name("scenario_state.json"))))
    rows: dict[tuple[str, int], Row] = {}
    for record in source.document:
        row = _row(record, states)
        earlier = rows.get((row.sample, row.repeat), row)
        if earlier is not row and set(earlier.scores) & set(row.scores):
            raise SpecError(
                f"{source.path} has instance {row.sample!r} twice in trial {row.repeat}: ids must be unique"
            )
        # Perturbed twins of an instance give further metrics of the same sample; its input is the original.
        original = row if not _perturbation(record) else earlier
        rows[row.sample, row.repeat] = replace(original, scores={**earlier.scores, **row.scores})
    spec = read_beside(source.path.with_name("run_spec.json"))
    results = Results(
        task=_task(spec.get("name") or "helm"),
        arm=spec["adapter_spec"]["model"] if spec else source.path.resolve().parent.name,
        rows=list(rows.values()),
        facts=_facts(name for row in rows.values() for name in row.scores),
        repeats=max((repeat for _, repeat in rows), default=0) + 1,
    )
    return ParsedFile(version="", results=[results])


def _task(name: str) -> str:
    """Return a run's name without its model: `mmlu:subject=law,model=x` becomes `mmlu:subject=law`."""
    scenario, _, arguments = name.partition(":")
    others = [argument for argument in arguments.split(",") if argument and not argument.startswith(_MODEL)]
    return ":".join([scenario, *([",".join(others)] if others else [])])


def _row(record: Record, states: Mapping[Unit, Record]) -> Row:
    """Return the row of an instance. HELM records an undefined statistic with a count of 0: it does not apply."""
    perturbation = _perturbation(record)
    suffix = f".{perturbation}" if perturbation else ""
    scores: dict[str, Value | None] = {}
    for stat in record["stats"]:
        if not _BOOKKEEPING.fullmatch(stat["name"]["name"]):
            scores[stat["name"]["name"] + suffix] = stat["mean"] if stat["count"] else None
    state = states.get((record["instance_id"], record["train_trial_index"], perturbation), {})
    return Row(sample=record["instance_id"], repeat=record["train_trial_index"], scores=scores, **_read_request(state))


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
    """Return the input, the right answers and the reply of a request."""
    if not state:
        return {}
    references = state["instance"].get("references") or ()
    completions = (state.get("result") or {}).get("completions") or ()
    right = [reference["output"]["text"] for reference in references if "correct" in reference.get("tags", ())]
    reply = Reply(text=completions[0]["text"], latency_s=state["result"].get("request_time")) if completions else None
    return {"input": state["instance"]["input"].get("text"), "expected": right, "reply": reply}
