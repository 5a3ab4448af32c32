"""Metrics that many harnesses have under one name, with their direction and range."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from pytest_crucible.records import MetricFacts


def facts_by_name(name: str) -> MetricFacts:
    """Return the facts of a metric that follow from its name.

    >>> facts_by_name("Exact Match").high, facts_by_name("latency_ms").direction
    (1.0, 'lower')
    """
    words, word = _word_lists(), _word(name)
    if word in words["shares"]:
        return MetricFacts(name=name, low=0.0, high=1.0)
    is_spent = word in words["faults"] + words["amounts"]
    return MetricFacts(name=name, direction="lower", low=0.0) if is_spent else MetricFacts(name=name)


def is_known(name: str) -> bool:
    return any(_word(name) in names for names in _word_lists().values())


def _word(name: str) -> str:
    """Return a name as one word, without what follows a dot: a part of a scorer's value, or a task's filter."""
    return re.sub(r"\W+", "_", name.partition(".")[0].strip().lower())


@cache
def _word_lists() -> Mapping[str, list[str]]:
    return tomllib.loads(files("pytest_crucible.importers").joinpath("known_metrics.toml").read_text(encoding="utf-8"))
