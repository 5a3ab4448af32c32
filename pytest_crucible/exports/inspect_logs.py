"""Logs of Inspect, format 2: one `.eval` archive for each arm of each experiment.

https://inspect.aisi.org.uk/eval-logs.html
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.exports.files import open_whole, require_folder
from pytest_crucible.exports.results import ArmResults, RunResults, SampleResult, Written, as_text, safe_name
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.tool_results import name_results, result_name
from pytest_crucible.stats.number_format import quantity

Json = dict[str, Any]
FORMAT = 2
GROUP = "group"
"""The key of a sample's metadata that has its group, which standard errors are clustered by."""
# Finish reasons in Inspect's terms.
_STOPS = {"length": "max_tokens", "tool_calls": "tool_calls", "content_filter": "content_filter", "stop": "stop"}


def write_inspect(results: RunResults, folder: Path | None) -> Iterator[Written]:
    """Write a log for each arm, and yield what was written. Raises SpecError."""
    target = require_folder(folder, "inspect")
    for arm in results.arms():
        # The viewer takes the name apart at underscores.
        parts = (arm.started[:19].replace(":", "-"), arm.task, arm.arm.name)
        yield _write_log(arm, target / f"{'_'.join(safe_name(part).replace('_', '-') for part in parts)}.eval")


def _write_log(arm: ArmResults, path: Path) -> Written:
    summaries: list[Json] = []
    without = Counter[str]()
    with open_whole(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "_journal/start.json", {"version": FORMAT, "eval": _spec(arm), "plan": _PLAN})
        for result in arm.read():
            sample = _sample(arm, result)
            without.update(name for name in arm.facts if name not in result.scores and name not in result.lost)
            _add(archive, f"samples/{result.sample.id}_epoch_{result.repeat + 1}.json", sample)
            summaries.append(_summary(sample))
        _add(archive, "summaries.json", summaries)
        _add(archive, "header.json", _header(arm, len(summaries)))
    notes = [
        f"{quantity(count, 'value')} of {name!r} that do not apply are unscored there: the format has no other word"
        for name, count in without.items()
        if not arm.facts[name].is_part and count < len(summaries)
    ]
    return Written(place=str(path), results=len(summaries), notes=tuple(notes))


def _add(archive: zipfile.ZipFile, name: str, document: Any) -> None:
    # Inspect reads NaN, which is its value of a score that is missing.
    archive.writestr(name, json.dumps(document, ensure_ascii=False, default=repr).encode("utf-8", "backslashreplace"))


_PLAN: Json = {"name": "plan", "steps": [{"solver": "pytest_crucible", "params": {}}], "config": {}}


def _spec(arm: ArmResults) -> Json:
    return {
        "eval_id": _id(arm.key),
        "run_id": _id(arm.run),
        "created": arm.started,
        "task": arm.task,
        # One id of two arms would make the second a retry of the first.
        "task_id": _id(arm.key),
        "task_version": 0,
        "task_file": arm.plan.path,
        "task_attribs": {},
        "task_args": {},
        "dataset": {
            "name": arm.plan.dataset,
            "samples": len(arm.sample_ids),
            "sample_ids": list(arm.sample_ids),
            "shuffled": False,
        },
        "model": arm.arm.name,
        "model_generate_config": {name: value for name, value in arm.arm.parameters.items() if name in _CONFIG},
        "model_args": {},
        "config": {"epochs": arm.repeats, "epochs_reducer": ["mean"]},
        "packages": {},
        "metadata": {"adapter": arm.arm.adapter, "identity": arm.arm.identity, "crucible_run": arm.run},
        "scorers": [_scorer(facts, is_grouped=arm.plan.groups is not None) for facts in arm.facts.values()],
    }


# Parameters of requests that Inspect knows by the same name.
_CONFIG = frozenset(
    ("max_tokens", "temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed", "logprobs")
)


def _scorer(facts: MetricFacts, *, is_grouped: bool) -> Json:
    # An accuracy is from 0 to 1, and more is better.
    is_accuracy = facts.kind == "binary" and facts.is_directed and facts.direction == "higher"
    stderr = {"name": "inspect_ai/stderr", "options": {"cluster": GROUP} if is_grouped else {}}
    mean: Json = {"name": "inspect_ai/accuracy" if is_accuracy else "inspect_ai/mean", "options": {}}
    return {
        "name": facts.name,
        "options": {},
        "metrics": [mean, stderr] if facts.kind != "text" else [],
        "metadata": {},
    }


def _header(arm: ArmResults, count: int) -> Json:
    total = len(arm.sample_ids) * arm.repeats
    return {
        "version": FORMAT,
        "status": "success" if arm.finished else "cancelled",
        "eval": _spec(arm),
        "plan": _PLAN,
        "results": {"total_samples": total, "completed_samples": count, "scores": list(_scores(arm))},
        "stats": {"started_at": arm.started, "completed_at": arm.started, "model_usage": {}},
    }


def _scores(arm: ArmResults) -> Iterator[Json]:
    """Yield the mean of each metric, with the ends of its interval."""
    for estimate in arm.estimates:
        if estimate.statistic == "mean" and estimate.value is not None:
            ends = (
                () if estimate.interval is None else (("low", estimate.interval.low), ("high", estimate.interval.high))
            )
            named = ((_mean_name(arm.facts[estimate.metric]), estimate.value), *ends)
            metrics = {
                name: {"name": name, "value": value, "params": {}} for name, value in named if math.isfinite(value)
            }
            counts = {"scored_samples": estimate.n, "unscored_samples": estimate.lost + estimate.inapplicable}
            yield {
                "name": estimate.metric,
                "scorer": estimate.metric,
                "reducer": "mean",
                **counts,
                "params": {},
                "metrics": metrics,
            }


def _mean_name(facts: MetricFacts) -> str:
    return str(_scorer(facts, is_grouped=False)["metrics"][0]["name"]).rpartition("/")[2]


def _sample(arm: ArmResults, result: SampleResult) -> Json:
    sample, model = result.sample, arm.arm.name
    input_messages = _messages(sample.input)
    reply = {"role": "assistant", "content": result.text, "source": "generate", "model": model}
    usage = {"input_tokens": result.input_tokens or 0, "output_tokens": result.output_tokens or 0}
    usage |= {"total_tokens": sum(usage.values())}
    counted = {} if result.output_tokens is None else {"usage": usage}
    choices = [] if result.error else [{"message": reply, "stop_reason": _STOPS.get(result.finish, "unknown")}]
    error = {"message": result.error, "traceback": "", "traceback_ansi": ""}
    group = {} if sample.cluster is None else {GROUP: sample.cluster}
    return {
        "id": sample.id,
        "epoch": result.repeat + 1,
        "input": sample.input if isinstance(sample.input, str) else input_messages,
        "target": _target(sample.expected),
        "messages": [] if result.error else _trajectory(result, model) or [*input_messages, reply],
        "output": {
            "model": model,
            "choices": choices,
            "completion": result.text,
            "time": result.latency_s,
            **counted,
            **({"error": result.error} if result.error else {}),
        },
        "scores": {} if result.error else dict(_sample_scores(result)),
        "metadata": {**sample.metadata, **group},
        "store": {},
        "events": [],
        "model_usage": {model: usage} if counted else {},
        "attachments": {},
        **({"error": error} if result.error else {}),
    }


def _sample_scores(result: SampleResult) -> Iterator[tuple[str, Json]]:
    for name, value in result.scores.items():
        yield name, {"value": value, "answer": result.text}
    for name, why in result.lost.items():
        yield name, {"value": math.nan, "explanation": why, "metadata": {"unscored_reason": why}}


def _trajectory(result: SampleResult, model: str) -> list[Json]:
    """Return the last conversation of an agent, with the tools that its last reply calls; empty where it is not known."""
    calls = [call for call in result.calls if not call.member]
    last = calls[-1] if calls else None
    if last is None or last.text is None or not isinstance(last.messages, list) or not last.is_recorded:
        return []
    reply = {"role": "assistant", "content": last.text, "tool_calls": last.tool_calls}
    # The test may have returned something else.
    scored = [] if last.text == result.text else [{"role": "assistant", "content": result.text}]
    return [_chat_message(message, model) for message in (*name_results(last.messages), reply, *scored)]


def _chat_message(message: Mapping[str, Any], model: str) -> Json:
    """Return a message as Inspect has it: https://inspect.aisi.org.uk/reference/inspect_ai.model.html#messages"""
    role, content = str(message.get("role", "user")), as_text(message.get("content") or "")
    if role == "assistant":
        called = [_tool_call(call) for call in message.get("tool_calls") or ()]
        origin = {"source": "generate", "model": model}
        return {"role": role, "content": content, **origin, **({"tool_calls": called} if called else {})}
    if role == "tool":
        named = {"function": tool} if (tool := result_name(message)) else {}
        return {"role": role, "content": content, "tool_call_id": message.get("tool_call_id"), **named}
    return {"role": role if role in _ROLES else "user", "content": content, "source": "input"}


_ROLES = ("system", "user")


def _tool_call(call: Mapping[str, Any]) -> Json:
    function = call.get("function") or {}
    name, arguments = str(function.get("name", "")), function.get("arguments")
    facts = {"id": str(call.get("id") or ""), "function": name, "type": "function"}
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError as error:
        return {**facts, "arguments": {}, "parse_error": f"{error}: {arguments:.1000}"}
    return {**facts, "arguments": parsed if isinstance(parsed, dict) else {"value": parsed}}


def _messages(value: Any) -> list[Json]:
    """Return an input as messages: a text, messages, or another value as JSON."""
    is_list = isinstance(value, list) and all(isinstance(each, Mapping) and "role" in each for each in value)
    messages = value if is_list else [{"role": "user", "content": as_text(value)}]
    return [
        {"role": str(each["role"]), "content": as_text(each.get("content") or ""), "source": "input"}
        for each in messages
    ]


def _target(expected: Any) -> str | list[str]:
    if expected is None:
        return ""
    return [as_text(each) for each in expected] if isinstance(expected, list) else as_text(expected)


def _summary(sample: Json) -> Json:
    """Return what a list of samples shows of one."""
    own = {name: sample[name] for name in ("id", "epoch", "input", "target", "scores", "model_usage")}
    failed = {"error": sample["error"]["message"]} if "error" in sample else {}
    return {**own, "metadata": {}, "completed": True, **failed}


def _id(text: str) -> str:
    """Return an id that is the same in each export."""
    return hashlib.sha256(text.encode()).hexdigest()[:22]
