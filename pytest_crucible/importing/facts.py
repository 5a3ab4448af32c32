"""What a metric of another harness is: by what its file declares, by its name, or by its values; the last is said in a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_crucible.errors import SpecError
from pytest_crucible.importing.known import is_known, named
from pytest_crucible.importing.results import Results
from pytest_crucible.records import Direction, Kind, MetricFacts, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the user says of metrics: it goes before what their file and their name say."""

    lower: frozenset[str] = frozenset()
    higher: frozenset[str] = frozenset()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        return {*self.lower, *self.higher, *self.ranges}

    def applied(self, facts: MetricFacts) -> MetricFacts:
        low, high = self.ranges.get(facts.name, (facts.low, facts.high))
        direction: Direction = facts.direction
        if facts.name in self.lower | self.higher:
            direction = "lower" if facts.name in self.lower else "higher"
        return replace(facts, direction=direction, low=low, high=high)


def metric_facts(of: Sequence[Results], declared: Declared) -> tuple[tuple[MetricFacts, ...], dict[str, str]]:
    """Facts of every metric of the arms of one task, of all of them together, and for those that had to be guessed a sentence.

    Raises SpecError.
    """
    told = {name: one for arm in of for name, one in arm.facts.items()}
    found = {name: _facts(name, seen, told.get(name), declared) for name, seen in _values(of).items()}
    return tuple(facts for facts, _ in found.values()), {name: said for name, (_, said) in found.items() if said}


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


def _facts(name: str, values: Sequence[Value], told: MetricFacts | None, declared: Declared) -> tuple[MetricFacts, str]:
    if any(isinstance(value, str) for value in values):
        return MetricFacts(name=name, kind="text"), ""
    numbers = [float(value) for value in values]
    low, high = declared.ranges.get(name, (-math.inf, math.inf))
    outside = next((number for number in numbers if not low <= number <= high), None)
    if outside is not None:
        raise SpecError(f"metric {name!r} has {outside:g}, outside its range {low:g} to {high:g}: correct --range")
    assumed = declared.applied(told or named(name))
    kind, low, high = _kind(assumed, numbers)
    found = replace(assumed, kind=kind, low=low, high=high)
    if told or is_known(name) or name in declared.names:
        return found, ""
    return (
        found,
        f"metric {name!r} is not known: {_taken(found)} (crucible import --lower, --higher and --range say otherwise)",
    )


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
