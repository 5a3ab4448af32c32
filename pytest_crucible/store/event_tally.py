"""Counts the events of each arm, and gathers the durations of its requests and waits."""

from __future__ import annotations

import copy
import math
from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_crucible.records import BUDGET, ArmEvents, EventCount

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
