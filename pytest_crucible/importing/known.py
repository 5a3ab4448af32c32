"""Metrics that many harnesses have under one name, and what they are."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from pytest_crucible.records import MetricFacts


def named(name: str) -> MetricFacts:
    """What a metric of this name is, as far as that is known.

    >>> named("Exact Match").high, named("latency_ms").direction
    (1.0, 'lower')
    """
    known, word = _known(), _word(name)
    if word in known["shares"]:
        return MetricFacts(name=name, low=0.0, high=1.0)
    is_spent = word in known["faults"] + known["amounts"]
    return MetricFacts(name=name, direction="lower", low=0.0) if is_spent else MetricFacts(name=name)


def is_known(name: str) -> bool:
    return any(_word(name) in names for names in _known().values())


def _word(name: str) -> str:
    """What stands behind a dot is a part of a scorer's value, or the filter of a task."""
    return re.sub(r"\W+", "_", name.partition(".")[0].strip().lower())


@cache
def _known() -> Mapping[str, list[str]]:
    return tomllib.loads(files("pytest_crucible.importing").joinpath("known_metrics.toml").read_text(encoding="utf-8"))
