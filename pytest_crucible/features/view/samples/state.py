"""The state of a list of samples, as its address has it: the filters, the order and the search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, fields

from pytest_crucible.features.view.addresses import parse_number
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
