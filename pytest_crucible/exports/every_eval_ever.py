"""Every Eval Ever, schema 0.3.0: an aggregate file for each arm of each experiment, and a line for each of its scores beside it.

https://github.com/evaleval/every_eval_ever
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import uuid
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pytest_crucible.exports.files import open_whole, require_folder
from pytest_crucible.exports.results import ArmResults, RunResults, SampleResult, Written, as_text, safe_name
from pytest_crucible.records import Estimate, MetricFacts
from pytest_crucible.records.errors import SpecError

Json = dict[str, Any]
SCHEMA = "0.3.0"
UNKNOWN = "unknown"
# Parameters of requests that the schema has fields for.
_GENERATION = ("temperature", "top_p", "top_k", "max_tokens")


def write_eee(results: RunResults, folder: Path | None, *, developer: str = UNKNOWN) -> Iterator[Written]:
    """Write `data/TASK/DEVELOPER/MODEL/UUID.json` and `UUID_samples.jsonl` for each arm, and yield what was written."""
    target = require_folder(folder, "eee")
    for arm in results.arms():
        yield _write_arm(_Evaluation(arm, safe_name(developer)), target)


class _Evaluation:
    """The names that both files of an arm have."""

    def __init__(self, arm: ArmResults, developer: str) -> None:
        self.arm, self.developer = arm, developer
        self.model = f"{developer}/{safe_name(arm.arm.name)}"
        self.at = str(int(datetime.datetime.fromisoformat(arm.started).timestamp()))
        self.id = f"{arm.task}/{self.model}/{self.at}"
        # A UUID of version 4 by its form, and the same in each export: the schema's files are named so.
        self.uuid = uuid.UUID(hashlib.sha256(arm.key.encode()).hexdigest()[:32], version=4)
        self.folder = Path("data", safe_name(arm.task), self.model)

    @property
    def samples(self) -> Path:
        return self.folder / f"{self.uuid}_samples.jsonl"


def _write_arm(evaluation: _Evaluation, target: Path) -> Written:
    arm, rows, digest = evaluation.arm, 0, hashlib.sha256()
    try:
        (target / evaluation.folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecError(f"-o {target} cannot be written: {error.strerror or error}") from error
    with open_whole(target / evaluation.samples) as file:
        for row in (row for result in arm.read() for row in _rows(evaluation, result)):
            line = f"{json.dumps(row, ensure_ascii=False)}\n".encode("utf-8", "backslashreplace")
            digest.update(line)
            file.write(line)
            rows += 1
    path = target / evaluation.folder / f"{evaluation.uuid}.json"
    with open_whole(path) as file:
        document = {
            **_aggregate(evaluation),
            "detailed_evaluation_results": {
                "format": "jsonl",
                "file_path": evaluation.samples.as_posix(),
                "hash_algorithm": "sha256",
                "checksum": digest.hexdigest(),
                "total_rows": rows,
            },
        }
        file.write(f"{json.dumps(document, ensure_ascii=False, indent=1)}\n".encode("utf-8", "backslashreplace"))
    return Written(place=str(path), results=rows, noun="score", notes=tuple(_notes(evaluation)))


def _notes(evaluation: _Evaluation) -> Iterator[str]:
    for name, facts in evaluation.arm.facts.items():
        if facts.kind == "text":
            yield f"{name!r} has texts as values, left out: the schema has numbers"
        elif not facts.is_directed:
            yield f"{name!r} has no known direction, left out: the schema needs one"
    if evaluation.developer == UNKNOWN:
        yield "the models' developer is unknown: name it with --developer before you publish the files"


def _aggregate(evaluation: _Evaluation) -> Json:
    arm = evaluation.arm
    return {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation.id,
        "evaluation_timestamp": arm.started,
        "retrieved_timestamp": evaluation.at,
        "source_metadata": {
            "source_name": "pytest-crucible",
            "source_type": "evaluation_run",
            "source_organization_name": UNKNOWN,
            "evaluator_relationship": "other",
            "additional_details": {"run": arm.run},
        },
        "eval_library": {"name": "pytest-crucible", "version": version("pytest-crucible")},
        "model_info": {
            "name": arm.arm.name,
            "id": evaluation.model,
            "developer": evaluation.developer,
            "additional_details": {
                "deployment_type": UNKNOWN,
                "model_availability": UNKNOWN,
                "identity": arm.arm.identity or UNKNOWN,
            },
        },
        "evaluation_results": [
            _result(evaluation, estimate)
            for estimate in arm.estimates
            if estimate.metric in _metrics(arm) and estimate.value is not None and math.isfinite(estimate.value)
            if estimate.statistic == "mean"
        ],
    }


def _result(evaluation: _Evaluation, estimate: Estimate) -> Json:
    arm, plan = evaluation.arm, evaluation.arm.plan
    facts = {name: value for name, value in arm.arm.parameters.items() if name in _GENERATION}
    others = {name: as_text(value) for name, value in arm.arm.parameters.items() if name not in _GENERATION}
    return {
        "evaluation_result_id": estimate.metric,
        "evaluation_name": arm.task,
        "source_data": {
            "dataset_name": plan.dataset,
            "source_type": "other",
            "additional_details": {"sha256": plan.dataset_sha256, "samples": str(plan.planned)},
        },
        "evaluation_timestamp": arm.started,
        "metric_config": _metric(arm.facts[estimate.metric]),
        "score_details": _score(estimate),
        "generation_config": {"generation_args": facts, "additional_details": others},
    }


def _metric(facts: MetricFacts) -> Json:
    bounds = {"min_score": facts.low, "max_score": facts.high}
    infinite = {-math.inf: "-Infinity", math.inf: "Infinity"}
    return {
        "metric_id": facts.name,
        "metric_name": facts.name,
        "lower_is_better": facts.direction == "lower",
        "score_type": "binary" if facts.kind == "binary" else "continuous",
        **{name: infinite.get(end, end) for name, end in bounds.items()},
    }


def _score(estimate: Estimate) -> Json:
    interval = estimate.interval
    bounds = (
        {}
        if interval is None or not (math.isfinite(interval.low) and math.isfinite(interval.high))
        else {
            "confidence_interval": {
                "lower": interval.low,
                "upper": interval.high,
                "confidence_level": interval.level,
                "method": estimate.method,
            }
        }
    )
    counts = {"lost": estimate.lost, "inapplicable": estimate.inapplicable}
    return {
        "score": estimate.value,
        "uncertainty": {**bounds, "num_samples": estimate.n},
        "details": {name: str(count) for name, count in counts.items()},
    }


def _rows(evaluation: _Evaluation, result: SampleResult) -> Iterator[Json]:
    """Yield a line for each metric of a result: a lost one has an `error`, and a score only because the schema needs one."""
    arm = evaluation.arm
    shared = _shared(evaluation, result)
    for name in _metrics(arm):
        facts, value = arm.facts[name], result.scores.get(name)
        why = result.error or result.lost.get(name, "")
        if value is None and not why:
            continue
        score = _worst(facts) if value is None or isinstance(value, str) else float(value)
        best = facts.low if facts.direction == "lower" else facts.high
        yield {
            **shared,
            "evaluation_result_id": name,
            "evaluation": {"score": score, "is_correct": not why and score == best, "num_turns": 1},
            "error": f"lost: {why}" if why else None,
        }


def _shared(evaluation: _Evaluation, result: SampleResult) -> Json:
    sample, expected = result.sample, result.sample.expected
    raw = as_text(sample.input)
    reference = [] if expected is None else [*map(as_text, expected if isinstance(expected, list) else [expected])]
    group = {} if sample.cluster is None else {"group": sample.cluster}
    tokens = (result.input_tokens, result.output_tokens)
    usage = (
        None
        if None in tokens
        else {
            "input_tokens": tokens[0],
            "output_tokens": tokens[1],
            "total_tokens": sum(token or 0 for token in tokens),
        }
    )
    latency = None if result.latency_s is None else {"latency_ms": 1000 * result.latency_s}
    metadata = {**{str(name): as_text(value) for name, value in sample.metadata.items()}, **group}
    return {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation.id,
        "model_id": evaluation.model,
        "evaluation_name": evaluation.arm.task,
        "sample_id": sample.id,
        "sample_hash": hashlib.sha256((raw + "".join(reference)).encode("utf-8", "backslashreplace")).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": raw, "reference": reference},
        "output": {"raw": [result.text]},
        "answer_attribution": [],
        "token_usage": usage,
        "performance": latency,
        # As the package's own converter of Inspect names and counts them, from 1.
        "metadata": {**metadata, "epoch": str(result.repeat + 1), "stop_reason": result.finish},
    }


def _metrics(arm: ArmResults) -> list[str]:
    return [name for name in arm.numeric() if arm.facts[name].is_directed]


def _worst(facts: MetricFacts) -> float:
    end = facts.high if facts.direction == "lower" else facts.low
    return end if math.isfinite(end) else 0.0
