"""Imported metrics: their kinds, declared in the file, known by name or inferred with a note, and names that targets can use."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from importlib.resources import files
from typing import TypeVar

from pytest_crucible.importers.packed_rows import RowColumns, map_rows
from pytest_crucible.importers.results import Results
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Direction, Kind, MetricFacts, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.measures import check_reach


def facts_by_name(name: str) -> MetricFacts:
    """Return the facts of a metric that follow from its name.

    >>> facts_by_name("Exact Match").high, facts_by_name("latency_ms").direction
    (1.0, 'lower')
    """
    kind = _kind_of_name(name)
    if kind == "shares":
        return MetricFacts(name=name, low=0.0, high=1.0)
    return (
        MetricFacts(name=name, direction="lower", low=0.0) if kind in ("faults", "amounts") else MetricFacts(name=name)
    )


def is_known(name: str) -> bool:
    return bool(_kind_of_name(name))


def _kind_of_name(name: str) -> str:
    """Return the list that has a name, or what follows its last dot: a part of a scorer's value; empty for an unknown name.

    What stands before a dot names a scorer: a part of its value, such as `match.length`, may be anything.
    """
    words = [re.sub(r"\W+", "_", part.strip().lower()) for part in (name, name.rpartition(".")[2])]
    return next((kind for word in words for kind, names in _word_lists().items() if word in names), "")


@cache
def _word_lists() -> Mapping[str, list[str]]:
    return tomllib.loads(files("pytest_crucible.importers").joinpath("known_metrics.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The user's declarations of metrics, which override those of the file and of the name."""

    lower: frozenset[str] = frozenset()
    higher: frozenset[str] = frozenset()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reaches: Mapping[str, float] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        return {*self.shaped, *self.reaches}

    @property
    def shaped(self) -> set[str]:
        """The metrics whose direction or range is declared, so that they need not be known."""
        return {*self.lower, *self.higher, *self.ranges}

    def with_directions(self, directions: Mapping[str, Direction]) -> Declared:
        """Return the declarations with more directions."""
        lower = {name for name, direction in directions.items() if direction == "lower"}
        return replace(self, lower=self.lower | lower, higher=self.higher | (set(directions) - lower))

    def apply_to(self, facts: MetricFacts) -> MetricFacts:
        low, high = self.ranges.get(facts.name, (facts.low, facts.high))
        if facts.name not in self.lower | self.higher:
            return replace(facts, low=low, high=high)
        direction: Direction = "lower" if facts.name in self.lower else "higher"
        return replace(facts, direction=direction, is_directed=True, low=low, high=high)


def metric_facts(of: Sequence[Results], declared: Declared) -> tuple[tuple[MetricFacts, ...], dict[str, str]]:
    """Return the facts of every metric of one task's arms, and a note for each metric whose kind was guessed.

    Raises SpecError.
    """
    declared_facts = _agreed_facts(of)
    by_name = {name: _facts(name, values, declared_facts.get(name), declared) for name, values in _values(of).items()}
    return tuple(facts for facts, _ in by_name.values()), {name: note for name, (_, note) in by_name.items() if note}


def _agreed_facts(of: Sequence[Results]) -> dict[str, MetricFacts]:
    """Return what the files declare. Of a metric on whose direction two files disagree, none is known."""
    agreed: dict[str, MetricFacts] = {}
    for facts in (facts for arm in of for facts in arm.facts.values()):
        earlier = agreed.get(facts.name, facts)
        if earlier.is_directed and facts.is_directed and earlier.direction != facts.direction:
            agreed[facts.name] = replace(earlier, is_directed=False)
        else:
            agreed[facts.name] = earlier if earlier.is_directed else facts
    return agreed


def _values(of: Iterable[Results]) -> dict[str, list[Value]]:
    values: dict[str, list[Value]] = {}
    for columns in (RowColumns.of(arm.rows) for arm in of):
        for name in columns.metrics:
            values.setdefault(name, []).extend(value for value in columns.values(name) if value is not None)
    return values


def _facts(
    name: str, values: Sequence[Value], declared_facts: MetricFacts | None, declared: Declared
) -> tuple[MetricFacts, str]:
    if any(isinstance(value, str) for value in values):
        return MetricFacts(name=name, kind="text"), ""
    numbers = [float(value) for value in values]
    low, high = declared.ranges.get(name, (-math.inf, math.inf))
    outside = next((number for number in numbers if not low <= number <= high), None)
    if outside is not None:
        raise SpecError(
            f"metric {name!r} has the value {outside:g}, outside its range {low:g} to {high:g}: correct --range"
        )
    by_name = replace(facts_by_name(name), is_directed=is_known(name))
    assumed = declared.apply_to(declared_facts or by_name)
    kind, low, high = _kind(assumed, numbers)
    reach = check_reach(declared.reaches.get(name), kind, (low, high), f"metric {name!r} has --reach")
    resolved = replace(assumed, kind=kind, low=low, high=high, reach=reach)
    if declared_facts or is_known(name) or name in declared.shaped:
        return resolved, ""
    shapes = {"binary": "yes or no", "bounded": f"a score from {resolved.low:g} to {resolved.high:g}"}
    shape = shapes.get(str(resolved.kind), "a number without bounds")
    return resolved, f"metric {name!r} is not known: it is taken as {shape} (crucible import --range says otherwise)"


def _kind(facts: MetricFacts, numbers: Sequence[float]) -> tuple[Kind, float, float]:
    """Return kind and bounds. Only zeros and ones make a metric binary; bounds that a value breaks are dropped."""
    low, high = facts.low, facts.high
    if numbers and not low <= min(numbers) <= max(numbers) <= high:
        low, high = -math.inf, math.inf
    # Zeros and ones within other declared bounds, such as 0 to 5, are low grades, not yes or no.
    if numbers and set(numbers) <= {0.0, 1.0} and (low, high) in ((0.0, 1.0), (-math.inf, math.inf)):
        return "binary", 0.0, 1.0
    if math.isfinite(low) and math.isfinite(high):
        return "bounded", low, high
    # Without a declared lower bound these look like shares; a known latency has one, and stays a positive amount.
    if facts.low == -math.inf and numbers and 0 <= min(numbers) <= max(numbers) <= 1:
        return "bounded", 0.0, 1.0
    return ("positive", 0.0, high) if low == 0 else ("unbounded", low, high)


Item = TypeVar("Item")
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_OTHER = re.compile(r"[^\w.\-]+")


def with_our_names(results: Results) -> Results:
    """Return the results with other characters in metric names replaced by `_`. Raises SpecError if two names become one."""
    names = {*RowColumns.of(results.rows).metrics, *results.facts}
    ours = {name: spelling(name) for name in names}
    if all(name == our_name for name, our_name in ours.items()):
        return results
    twice = [our_name for our_name, count in Counter(ours.values()).items() if count > 1]
    if twice:
        same = " and ".join(sorted(repr(name) for name, our_name in ours.items() if our_name == twice[0]))
        raise SpecError(f"metrics {same} both become {twice[0]!r}: rename one of them in the file")
    rows = map_rows(
        results.rows,
        lambda row: replace(row, scores=_rename_keys(row.scores, ours), lost=_rename_keys(row.lost, ours)),
    )
    facts = {ours[name]: replace(facts_of_metric, name=ours[name]) for name, facts_of_metric in results.facts.items()}
    return replace(results, rows=rows, facts=facts)


def spelling(name: str) -> str:
    """Return the name as a target can write it.

    >>> spelling("Correctness [GEval]"), spelling("2nd try")
    ('Correctness_GEval', '_2nd_try')
    """
    if _NAME.fullmatch(name):
        return name
    name_part = _OTHER.sub("_", name).strip("_")
    return name_part if _NAME.fullmatch(name_part) else f"_{name_part}"


def _rename_keys(of: Mapping[str, Item], ours: Mapping[str, str]) -> dict[str, Item]:
    return {ours[name]: value for name, value in of.items()}
