"""Fingerprints of everything that an answer depends on besides the model.

Stored replies may replace new ones only when all parts are equal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
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
    return Fingerprint(
        dataset=dataset,
        function=_sha([case, *sources(function, owner)]),
        metrics=_sha(sorted(f"{metric.name}={metric_version(metric)}" for metric in used)),
        sampling=_sha(sampling),
        reasoning=reasoning if used else "",
    )


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
