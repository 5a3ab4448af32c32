"""The metrics that a log of Inspect declares for its scorers: clusters, and accuracies, where more is better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from pytest_crucible.records.errors import SpecError

Spec = Mapping[str, Any]


def cluster_key(spec: Spec) -> str:
    """Return the key of the metadata that `stderr(cluster="...")` names. Raises SpecError for two different keys."""
    clusters = dict.fromkeys(key for _, metric in _declared_metrics(spec) if (key := _options(metric).get("cluster")))
    if len(clusters) > 1:
        raise SpecError(f"the log has several clusters ({', '.join(clusters)}): choose one with --group KEY")
    return next(iter(clusters), "")


def accuracies(spec: Spec, names: Iterable[str]) -> set[str]:
    """Return the metrics whose values the log averages as an accuracy: from 0 to 1, and more is better."""
    patterns = [
        pattern for pattern, metric in _declared_metrics(spec) if metric["name"].rpartition("/")[2] == "accuracy"
    ]
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}


def _declared_metrics(spec: Spec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each metric with the pattern of the names that it is computed from. A task's own metrics are of every scorer."""
    for scorer in spec.get("scorers") or ():
        yield from _metrics(scorer.get("metrics"), scorer["name"])
    yield from _metrics(spec.get("metrics"), "*")


def _metrics(within: Any, pattern: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the metrics of a scorer: a list, or a list for each of its values, which `*` may stand for."""
    if isinstance(within, list):
        for item in within:
            yield from _metrics(item, pattern)
    elif isinstance(within, dict) and isinstance(within.get("name"), str):
        yield pattern, within
        yield from _metrics(_options(within).get("metric"), pattern)
    elif isinstance(within, dict):
        for value, metrics in within.items():
            yield from _metrics(metrics, f"{pattern}.{value}")


def _options(metric: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a metric, which are `params` for the one inside `grouped(...)`."""
    options: Mapping[str, Any] = metric.get("options") or metric.get("params") or {}
    return options
