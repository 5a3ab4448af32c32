"""The state of a list of samples, as its address has it, and the samples of an index that it selects, in its order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, fields

import numpy as np

from pytest_crucible.analyse.scores import Flags, Floats
from pytest_crucible.features.view.addresses import parse_number
from pytest_crucible.features.view.samples.index import STATES, Codes, SampleIndex
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.store.texts import sanitize_text

SHOW = ("", "worse", "better", "equal", "failed", "lost", "skipped")
"""Which samples: all, those on which the candidate is worse than the baseline, and so on."""
SORTS = ("", "most-lost", "most-gained", "worst", "best", "baseline-worst", "baseline-best", "slowest", "fastest")
"""In which order: that of the dataset, and so on."""
LONGEST_SEARCH = 1_000
"""Characters. A pattern of SQLite has 50,000 bytes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListState:
    """A filtered and sorted list of the samples of an experiment. What is not chosen is empty."""

    show: str = ""
    metric: str = ""
    baseline: int = 1
    """The number of the arm that the candidate is compared with."""
    sort: str = ""
    group: str = ""
    by: str = ""
    """A field of the samples, or fields by which the plan slices them."""
    slice: str = ""
    """The value of the field."""
    search: str = ""
    is_abandoned: Callable[[], bool] = field(default=lambda: False, compare=False, repr=False)
    """Returns whether the request for the list was cancelled; not a part of the state."""

    def query(self) -> dict[str, str | int]:
        """Return what an address says: only what is chosen."""
        chosen = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        return {name: value for name, value in chosen.items() if value != getattr(ListState(), name)}


def read_state(query: Mapping[str, str]) -> ListState:
    """Return the state that the query of an address has. Raises SpecError."""
    search = query.get("search", "")
    if len(search) > LONGEST_SEARCH:
        raise SpecError(f"a search of {len(search):,} characters is too long: write at most {LONGEST_SEARCH:,}")
    return ListState(
        show=_choose("show", query, SHOW),
        sort=_choose("sort", query, SORTS),
        baseline=read_number("baseline", query, least=1, otherwise=1),
        search=sanitize_text(search),
        metric=sanitize_text(query.get("metric", "")),
        group=sanitize_text(query.get("group", "")),
        by=sanitize_text(query.get("by", "")),
        slice=sanitize_text(query.get("slice", "")),
    )


def _choose(name: str, query: Mapping[str, str], values: tuple[str, ...]) -> str:
    value = query.get(name, "")
    if value not in values:
        chosen = suggest(value, values[1:], otherwise=f"choose one of {', '.join(values[1:])}")
        raise SpecError(f"{name}={value!r:.80} of the address is not valid: {chosen}")
    return value


def read_number(name: str, query: Mapping[str, str], *, least: int, otherwise: int, most: int = 10**9) -> int:
    """Return a whole number of the query of an address. Raises SpecError."""
    text = query.get(name, "")
    if not text:
        return otherwise
    number = parse_number(text, least, most)
    if number is None:
        raise SpecError(
            f"{name}={text!r:.80} of the address is not valid: write a whole number from {least} to {most:,}"
        )
    return number


def check_name(name: str, value: str, names: Collection[str]) -> None:
    """Raise SpecError, with the nearest name, for one that is not among those that there are."""
    if value not in names:
        first = ", ".join(repr(each)[:80] for each in sorted(names)[:5])
        hint = suggest(
            value[:200],
            names if len(names) < 1_000 else (),
            otherwise=f"choose one of {first}" if names else "leave it out",
        )
        raise SpecError(f"{name}={value!r:.80} of the address is not valid: {hint}")


FAILED, LOST, SKIPPED = (STATES.index(state) for state in ("failed", "lost", "skipped"))


def select_samples(index: SampleIndex, state: ListState, *others: Flags) -> Codes:
    """Return the positions of the samples of a list, in its order. `others` are the filters that need the store."""
    inside = np.ones(index.size, dtype=bool) if not state.group else index.groups.flag(state.group)
    for flags in (*others, *([_flag_outcome(index, state)] if state.show else ())):
        inside &= flags
    positions: Codes = np.flatnonzero(inside)
    key = _sort_key(index, state)
    # numpy sorts NaN, what is unknown, last; a stable order leaves ties as the dataset has them.
    return positions if key is None else positions[np.argsort(key[positions], kind="stable")]


def gains(index: SampleIndex, state: ListState) -> Floats:
    """Return candidate minus baseline, positive where the candidate is better; NaN where either has no value."""
    column = index.metrics.get(state.metric, ())
    if len(column) < 2:
        return np.full(index.size, np.nan)
    return _sign(index, state.metric) * subtract_scores(column[0].values, column[state.baseline].values)


def subtract_scores(ours: Floats, theirs: Floats) -> Floats:
    """Return differences of means over repeats: 0 also where equal scores in another order differ in their last digits."""
    return np.where(np.isclose(ours, theirs, rtol=1e-12, atol=0), 0.0, ours - theirs)


def _sign(index: SampleIndex, metric: str) -> float:
    return -1.0 if index.facts[metric].direction == "lower" else 1.0


def shown_arms(index: SampleIndex, state: ListState) -> tuple[int, ...]:
    """Return the numbers of the arms that a list shows: the candidate, and the baseline if there is one."""
    return (0, state.baseline) if len(index.states) > 1 else (0,)


def _flag_outcome(index: SampleIndex, state: ListState) -> Flags:
    if state.show in ("failed", "lost", "skipped"):
        return np.asarray(np.any([_flag_state(index, state, arm) for arm in shown_arms(index, state)], axis=0))
    gain = gains(index, state)
    sign = {"worse": -1, "equal": 0, "better": 1}[state.show]
    # The sign of NaN is NaN.
    return np.asarray(np.sign(gain) == sign)


def _flag_state(index: SampleIndex, state: ListState, arm: int) -> Flags:
    states = index.states[arm]
    if state.show != "lost":
        return np.asarray(states == (FAILED if state.show == "failed" else SKIPPED))
    of_metric = index.metrics.get(state.metric)
    # A reply may be there while its score is lost. A failure without a finite worst value counts as lost in an analysis only.
    of_scores = of_metric[arm].lost & (states != FAILED) if of_metric else False
    return np.asarray((states == LOST) | of_scores)


def _sort_key(index: SampleIndex, state: ListState) -> Floats | None:
    """Return a number for each sample, the least of which comes first; None for the order of the dataset."""
    if not state.sort:
        return None
    if state.sort in ("slowest", "fastest"):
        return index.latency_s[0] * (-1.0 if state.sort == "slowest" else 1.0)
    if state.sort in ("most-lost", "most-gained"):
        return gains(index, state) * (-1.0 if state.sort == "most-gained" else 1.0)
    arm = state.baseline if state.sort.startswith("baseline") else 0
    column = index.metrics.get(state.metric, ())
    if arm >= len(column):
        return None
    reverse = -1.0 if state.sort.endswith("best") else 1.0
    return column[arm].values * (_sign(index, state.metric) * reverse)
