"""Counts the events of each arm, and gathers the durations of its requests and waits."""

from __future__ import annotations

import copy
import math
import threading
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from math import isnan, nan
from operator import itemgetter
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import BUDGET, ArmEvents, ArmOutcomes, EventCount, Failure, ScoreColumns
from pytest_crucible.store import schema
from pytest_crucible.store.table import Table

Place = tuple[str, str]
"""Nodeid of the experiment, name of the arm."""
_Kind = tuple[str, str, str, str | None]
COLUMNS = (
    *("experiment", "arm", "name", "error", "at", "seconds"),
    *("input_tokens", "output_tokens", "first_token_s", "cost_usd"),
)


@dataclass(slots=True)
class _Sums:
    """Sums over the events of one arm that have name and error in common."""

    n: int = 0
    counted: int = 0
    input_tokens: float | None = None
    output_tokens: float | None = None
    costs: array[float] = field(default_factory=lambda: array("d"))
    first: float = math.inf
    last: float = -math.inf

    def add_tokens(self, inputs: float | None, outputs: float | None) -> None:
        self.counted += 1
        if inputs is not None:
            self.input_tokens = inputs + (self.input_tokens or 0)
        if outputs is not None:
            self.output_tokens = outputs + (self.output_tokens or 0)

    def count(self, name: str, error: str | None) -> EventCount:
        return EventCount(
            name=name,
            error=error,
            n=self.n,
            counted=self.counted,
            input_tokens=_as_stored(self.input_tokens),
            output_tokens=_as_stored(self.output_tokens),
            priced=len(self.costs),
            # Exact, in whatever order the rows come.
            cost_usd=math.fsum(self.costs) if self.costs else None,
            first=self.first,
            last=self.last,
        )


class EventTally:
    """Counts and durations by arm, of rows from the database or from its writer."""

    def __init__(self) -> None:
        self.rows = 0
        """The number of added events, those of no experiment included."""
        self._sums: defaultdict[_Kind, _Sums] = defaultdict(_Sums)
        self._durations: defaultdict[Place, ArmEvents] = defaultdict(lambda: ArmEvents(counts=()))

    def add(self, row: Sequence[Any]) -> None:
        """Add an event by its values of COLUMNS."""
        experiment, arm, name, error, at, seconds, inputs, outputs, first_token, cost = row
        self.rows += 1
        if not experiment or name == BUDGET:
            return
        sums = self._sums[experiment, arm, name, error]
        sums.n += 1
        if inputs is not None or outputs is not None:
            sums.add_tokens(inputs, outputs)
        if cost is not None:
            sums.costs.append(cost)
        began = at if seconds is None else at - seconds
        if began < sums.first:
            sums.first = began
        if at > sums.last:
            sums.last = at
        if seconds is not None and (name == "limiter.wait" or (name == "request.stop" and error is None)):
            durations = self._durations[experiment, arm]
            (durations.waits if name == "limiter.wait" else durations.latencies).append(seconds)
            if first_token is not None:
                durations.first_tokens.append(first_token)

    def names(self) -> set[str]:
        """Return the experiments, arms, names and errors of the counted events."""
        return {text for kind in self._sums for text in kind if text is not None}

    def by_arm(self) -> dict[Place, ArmEvents]:
        """Return the events of each arm so far."""
        counts: dict[Place, list[EventCount]] = defaultdict(list)
        for kind in sorted(self._sums, key=_none_first):
            experiment, arm, name, error = kind
            counts[experiment, arm].append(self._sums[kind].count(name, error))
        durations = copy.deepcopy(self._durations)
        return {place: replace(durations[place], counts=tuple(of_arm)) for place, of_arm in counts.items()}


def _none_first(kind: _Kind) -> tuple[object, ...]:
    *texts, error = kind
    return (*texts, error is not None, error)


def _as_stored(tokens: Any) -> Any:
    """Return a sum of tokens as an integer where it is one: the database stores 12.0 as 12."""
    return tokens if tokens is None or tokens % 1 else int(tokens)


Rows = Mapping[Table, Sequence[Mapping[str, Any]]]
TABLES = (schema.replies, schema.observations, schema.events)

_of_reply = itemgetter("arm", "position", "epoch", "failure", "skipped")
_arm_and_metric = itemgetter("arm", "metric")
_of_event = itemgetter("run", *COLUMNS)


@dataclass(slots=True)
class _Units:
    """Positions and repeats of rows, in the order in which they were written."""

    positions: array[int] = field(default_factory=lambda: array("i"))
    repeats: array[int] = field(default_factory=lambda: array("i"))

    def order(self) -> Any:
        """Return the places of the rows in the order of the database's keys."""
        # Not for every process that opens a store.
        import numpy as np

        return np.lexsort((self.repeats, self.positions))


@dataclass(slots=True)
class _Scores(_Units):
    """Values of one metric. NaN does not apply: SQLite stores it as NULL, too."""

    values: array[float] = field(default_factory=lambda: array("d"))
    is_bool: bytearray = field(default_factory=bytearray)

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows without labels: a column at a time takes a quarter of the time."""
        self.positions.extend(map(itemgetter("position"), rows))
        self.repeats.extend(map(itemgetter("epoch"), rows))
        self.values.extend([nan if row["value"] is None else row["value"] for row in rows])
        self.is_bool.extend(map(itemgetter("is_bool"), rows))

    def columns(self) -> ScoreColumns:
        order = self.order()
        values = _take(self.values, order)
        return ScoreColumns(
            positions=_take(self.positions, order),
            repeats=_take(self.repeats, order),
            values=[None if isnan(value) else value for value in values] if any(map(isnan, values)) else values,
            is_bool=_take_flags(self.is_bool, order),
        )


@dataclass(slots=True)
class _Replies(_Units):
    """Replies of one arm, with its scores by metric."""

    failures: dict[int, Failure] = field(default_factory=dict)
    """By the number of the row: most have none."""
    skipped: bytearray = field(default_factory=bytearray)
    scores: defaultdict[str, _Scores] = field(default_factory=lambda: defaultdict(_Scores))
    labels: set[str] = field(default_factory=set)
    observations: int = 0
    """The number of rows, those with labels included."""

    def add_reply(self, position: int, repeat: int, failure: Failure | None, skipped: bool) -> None:
        if failure is not None:
            self.failures[len(self.positions)] = failure
        self.positions.append(position)
        self.repeats.append(repeat)
        self.skipped.append(skipped)

    def add_observations(self, metric: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self.observations += len(rows)
        numbers = [row for row in rows if row["label"] is None]
        if len(numbers) < len(rows):
            self.labels.add(metric)
        self.scores[metric].add(numbers)

    def outcomes(self) -> ArmOutcomes:
        order = self.order()
        return ArmOutcomes(
            positions=_take(self.positions, order),
            repeats=_take(self.repeats, order),
            failures=[self.failures.get(k) for k in order] if self.failures else [None] * len(order),
            skipped=_take_flags(self.skipped, order),
            scores={metric: self.scores[metric].columns() for metric in sorted(self.scores)},
            labels=frozenset(self.labels),
            lost=[],
        )


class WrittenRows:
    """Outcomes by arm and events by run, of the rows that a store's writers have committed. For any thread."""

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        """`redact` returns a name as the database has it."""
        self._redact = redact
        self._lock = threading.Lock()
        self._arms: defaultdict[int | None, _Replies] = defaultdict(_Replies)
        self._events: defaultdict[str, EventTally] = defaultdict(EventTally)
        self._is_valid = True

    def add(self, rows: Rows) -> None:
        """Add committed rows of TABLES."""
        with self._lock:
            if not self._is_valid:
                return
            for arm, *reply in map(_of_reply, rows.get(schema.replies, ())):
                self._arms[arm].add_reply(*reply)
            by_metric: defaultdict[tuple[int, str], list[Mapping[str, Any]]] = defaultdict(list)
            for row in rows.get(schema.observations, ()):
                by_metric[_arm_and_metric(row)].append(row)
            for (arm, metric), of_metric in by_metric.items():
                self._arms[arm].add_observations(metric, of_metric)
            for run, *event in map(_of_event, rows.get(schema.events, ())):
                self._events[run].add(event)

    def discard(self) -> None:
        """Forget all rows, and those to come: the database had another row with the key of one."""
        with self._lock:
            self._is_valid = False
            self._arms.clear()
            self._events.clear()

    # Nothing is added while rows are counted, and the database has at least these: as many are the same.

    def outcomes(self, arm: int | None, count_stored: Callable[[], tuple[int, int]]) -> ArmOutcomes | None:
        """Return an arm's outcomes without lost values and texts; None unless the database has the same and no others.

        `count_stored` returns how many replies and observations of the arm it has.
        """
        with self._lock:
            replies = self._arms.get(arm)
            if replies is None or self._hides(replies.scores):
                return None
            is_whole = (len(replies.positions), replies.observations) == count_stored()
            return replies.outcomes() if is_whole else None

    def events(self, run: str, count_stored: Callable[[], int]) -> dict[Place, ArmEvents] | None:
        """Return a run's events by arm; None unless the database has the same and no others. `count_stored` counts its rows."""
        with self._lock:
            tally = self._events.get(run)
            if tally is None or self._hides(tally.names()):
                return None
            return tally.by_arm() if tally.rows == count_stored() else None

    def _hides(self, names: Iterable[str]) -> bool:
        """Return whether the database has another text for a name, which holds a key."""
        return any(self._redact(name) != name for name in names)


def _take(values: array[Any], order: Any) -> array[Any]:
    import numpy as np

    column = array(values.typecode)
    column.frombytes(np.asarray(values)[order].tobytes())
    return column


def _take_flags(flags: bytearray, order: Any) -> list[bool]:
    import numpy as np

    column: list[bool] = np.array(flags, dtype=bool)[order].tolist()
    return column
