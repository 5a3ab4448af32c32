"""What a metric of another harness is: by what its file declares, by its name, or by its values; the last is said in a sentence."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

from pytest_crucible.importing.results import Results
from pytest_crucible.records import Direction, Kind, MetricFacts, Value


def metric_facts(
    of: Sequence[Results], declared: Mapping[str, MetricFacts]
) -> tuple[tuple[MetricFacts, ...], list[str]]:
    """Facts of every metric of the arms of one task, of all of them together, and what had to be assumed.

    `declared` is what the user says, which goes before all else.
    """
    values = _values(of)
    told = {name: one for arm in of for name, one in arm.facts.items()} | dict(declared)
    found = [_facts(name, seen, told.get(name)) for name, seen in values.items()]
    return tuple(facts for facts, _ in found), [said for _, said in found if said]


def _values(of: Iterable[Results]) -> dict[str, list[Value]]:
    """All values of each metric; none of one that nothing has."""
    found: dict[str, list[Value]] = {}
    for row in (row for arm in of for row in arm.rows):
        for name, value in row.scores.items():
            found.setdefault(name, [])
            if value is not None:
                found[name].append(value)
        for name in row.lost:
            found.setdefault(name, [])
    return found


def _facts(name: str, values: Sequence[Value], told: MetricFacts | None) -> tuple[MetricFacts, str]:
    if any(isinstance(value, str) for value in values):
        return MetricFacts(name=name, kind="text"), ""
    numbers = [float(value) for value in values]
    facts = told or _by_name(name)
    assumed = facts or MetricFacts(name=name)
    kind, low, high = _kind(assumed, numbers)
    found = replace(assumed, name=name, kind=kind, low=low, high=high)
    return found, "" if facts else f"metric {name!r} is not known: {_taken(found)}; --lower and --range say otherwise"


def _by_name(name: str) -> MetricFacts | None:
    """A scorer's value has the name of both; a judge's has its kind in brackets."""
    word = re.sub(r"\W+", "_", name.split("[")[0].strip().lower()).strip("_")
    known = _known()
    if word in known["shares"]:
        return MetricFacts(name=name, low=0.0, high=1.0)
    direction: Direction = "lower"
    return MetricFacts(name=name, direction=direction, low=0.0) if word in known["faults"] + known["amounts"] else None


@cache
def _known() -> Mapping[str, list[str]]:
    return tomllib.loads(files("pytest_crucible.importing").joinpath("known_metrics.toml").read_text(encoding="utf-8"))


def _kind(facts: MetricFacts, numbers: Sequence[float]) -> tuple[Kind, float, float]:
    """Yes or no where nothing else was seen. Bounds that a value breaks were not the metric's."""
    low, high = facts.low, facts.high
    if numbers and not low <= min(numbers) <= max(numbers) <= high:
        low, high = -math.inf, math.inf
    if numbers and set(numbers) <= {0.0, 1.0} and (low, high) in ((0.0, 1.0), (-math.inf, math.inf)):
        return "binary", 0.0, 1.0
    if math.isfinite(low) and math.isfinite(high):
        return "bounded", low, high
    if facts.low == -math.inf and numbers and 0 <= min(numbers) <= max(numbers) <= 1:
        return "bounded", 0.0, 1.0
    return ("positive", 0.0, high) if low == 0 else ("unbounded", low, high)


def _taken(facts: MetricFacts) -> str:
    shape = {"binary": "yes or no", "bounded": f"a score from {facts.low:g} to {facts.high:g}"}
    return f"it is taken as {shape.get(str(facts.kind), 'a number without bounds')}, {facts.direction} is better"
