"""Fingerprints of everything that an answer depends on besides the model.

Stored replies may replace new ones only when all parts are equal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pytest_crucible.metrics.definition import Metric
from pytest_crucible.records import Fingerprint, Reasoning
from pytest_crucible.records.function_source import sources


def fingerprint(
    *,
    dataset: str,
    function: Callable[..., Any],
    case: str,
    metrics: Iterable[Metric],
    sampling: Mapping[str, Any],
    owner: type | None = None,
    reasoning: Reasoning = "strip",
) -> Fingerprint:
    """Return hashes of the dataset's rows, the function (and what it reads), the metrics, and how replies are sampled.

    `reasoning` is the setting: metrics score a reply with its reasoning, or without it.
    `case` distinguishes the cases of a parametrised function, `owner` is the class of a method.
    """
    used = list(metrics)
    others = [metric for metric in used if not metric.facts.of_calls]
    return Fingerprint(
        dataset=dataset,
        function=_sha([case, *sources(function, owner)]),
        metrics=_hash_metrics(used),
        sampling=_sha(sampling),
        reasoning=reasoning if used else "",
        other_metrics=_hash_metrics(others) if len(others) < len(used) else "",
    )


def _hash_metrics(metrics: Iterable[Metric]) -> str:
    return _sha(sorted(f"{metric.name}={metric_version(metric)}" for metric in metrics))


def without_metrics_of_calls(parts: Fingerprint) -> Fingerprint:
    """Return the fingerprint that an experiment would have without metrics of calls."""
    return replace(parts, metrics=parts.other_metrics or parts.metrics, other_metrics="")


def metric_version(metric: Metric) -> str:
    """Return the declared version, or a hash of the function's source."""
    return metric.facts.version or _sha(list(sources(metric.function)))[:16]


def differences(ours: Fingerprint, theirs: Fingerprint) -> list[str]:
    """Return the names of the parts in which two fingerprints differ."""
    words = {
        "dataset": "dataset rows",
        "function": "test function",
        "metrics": "metrics",
        "sampling": "sampling parameters",
        "reasoning": "the scoring of reasoning (crucible_reasoning)",
    }
    return [word for part, word in words.items() if getattr(ours, part) != getattr(theirs, part)]


def _sha(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()
