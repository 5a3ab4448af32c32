"""Samples of lm-evaluation-harness: `MODEL/results_DATE.json` and, for each task, `MODEL/samples_TASK_DATE.jsonl` beside it.

https://github.com/EleutherAI/lm-evaluation-harness/blob/main/docs/interface.md
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from pytest_crucible.exports.files import open_whole, require_folder
from pytest_crucible.exports.results import ArmResults, RunResults, SampleResult, Written, as_text, safe_name
from pytest_crucible.records.errors import SpecError

Json = dict[str, Any]


def write_lm_eval(results: RunResults, folder: Path | None) -> Iterator[Written]:
    """Write a folder for each arm, and yield what was written. Raises SpecError for repeats, which the format has not."""
    target = require_folder(folder, "lm-eval")
    arms = sorted(results.arms(), key=lambda arm: arm.arm.name)
    for arm in arms:
        if arm.repeats > 1:
            raise SpecError(
                f"--what lm-eval: {arm.task} has {arm.repeats} repeats, and the format one score for each sample: write "
                "--what inspect or --what eee"
            )
    for name, group in groupby(arms, key=lambda arm: arm.arm.name):
        of_arm = list(group)
        place = target / safe_name(name)
        place.mkdir(exist_ok=True)
        # As lm-eval writes it: readers pair the files by their dates.
        date = of_arm[0].started[:19].replace(":", "-")
        for arm in of_arm:
            yield _write_samples(arm, place / f"samples_{safe_name(arm.task)}_{date}.jsonl")
        with open_whole(place / f"results_{date}.json") as file:
            file.write(_encode(_results(of_arm)))


def _write_samples(arm: ArmResults, path: Path) -> Written:
    count = 0
    texts = [name for name, facts in arm.facts.items() if facts.kind == "text"]
    with open_whole(path) as file:
        for result in arm.read():
            file.write(_encode(_row(arm, result)) + b"\n")
            count += 1
    notes = [f"{name!r} has texts as values, left out: samples have numbers" for name in texts]
    return Written(place=str(path), results=count, notes=tuple(notes))


def _encode(document: Any) -> bytes:
    # NaN is the value of a score that is lost, as Python's JSON writes it.
    return json.dumps(document, ensure_ascii=False, default=repr).encode("utf-8", "backslashreplace")


def _row(arm: ArmResults, result: SampleResult) -> Json:
    sample, numeric = result.sample, arm.numeric()
    lost = dict.fromkeys(numeric, math.nan) if result.error else dict.fromkeys(result.lost, math.nan)
    values = {
        name: float(value) for name, value in result.scores.items() if name in numeric and not isinstance(value, str)
    }
    group = {} if sample.cluster is None else {"group": sample.cluster}
    prompt, target = as_text(sample.input), "" if sample.expected is None else as_text(sample.expected)
    document = {**sample.metadata, "input": sample.input, "expected": sample.expected, **group}
    return {
        "doc_id": sample.id,
        "doc": document,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": dict(arm.arm.parameters)}},
        "resps": [[result.text]],
        "filtered_resps": [result.text],
        "filter": "none",
        "metrics": [*values, *lost],
        "doc_hash": _hash(as_text(document)),
        "prompt_hash": _hash(prompt),
        "target_hash": _hash(target),
        **values,
        **lost,
    }


def _results(arms: list[ArmResults]) -> Json:
    first = arms[0]
    return {
        "results": {arm.task: _totals(arm) for arm in arms},
        "group_subtasks": {},
        "configs": {arm.task: {"task": arm.task, "repeats": 1, "dataset_path": arm.plan.dataset} for arm in arms},
        "versions": dict.fromkeys((arm.task for arm in arms), 0),
        "n-shot": dict.fromkeys((arm.task for arm in arms), 0),
        "higher_is_better": {
            arm.task: {
                name: arm.facts[name].direction == "higher" for name in arm.numeric() if arm.facts[name].is_directed
            }
            for arm in arms
        },
        "n-samples": {arm.task: {"original": len(arm.sample_ids), "effective": len(arm.sample_ids)} for arm in arms},
        "config": {"model": first.arm.adapter, "model_args": {}, "batch_size": None},
        "model_source": "pytest-crucible",
        "model_name": first.arm.name,
        "model_name_sanitized": safe_name(first.arm.name),
    }


def _totals(arm: ArmResults) -> Mapping[str, Any]:
    means = {
        f"{each.metric},none": each.value
        for each in arm.estimates
        if each.statistic == "mean" and each.value is not None
    }
    errors = {f"{each.metric}_stderr,none": "N/A" for each in arm.estimates if each.statistic == "mean"}
    return {"alias": arm.task, "sample_len": len(arm.sample_ids), **means, **errors}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
