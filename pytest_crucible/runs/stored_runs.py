"""Stored runs as data frames: their scores and replies, and what was estimated, compared and decided."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ColumnKind, Comparison, ExportTable, Run
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import pick
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.run_store import existing_store, session_store
from pytest_crucible.stats.interval import Interval
from pytest_crucible.store import tables
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.runs import RunStore

if TYPE_CHECKING:
    import pandas as pd

_READER = "pytest_crucible.runs"
"""What messages name as the reader of a store."""
# Types that have a missing value, so that an unknown count does not turn its column into floats.
_DTYPES: Mapping[ColumnKind, str] = {
    "text": "string",
    "integer": "Int64",
    "number": "float64",
    "flag": "boolean",
    "json": "object",
}


def _columns(*words: str) -> Mapping[str, ColumnKind]:
    """Return column -> kind of texts that name a kind and then its columns."""
    kinds = [(kind, names) for kind, *names in map(str.split, words)]
    return {name: cast(ColumnKind, kind) for kind, names in kinds for name in names}


ESTIMATES = _columns(
    "text run experiment metric statistic arm",
    "integer n lost inapplicable clusters",
    "number value low high level",
    "text method",
)
COMPARISONS = _columns(
    "text run experiment subject metric candidate baseline alternative",
    "number margin relevant",
    "integer pairs lost clusters",
    "number difference low high level ratio ratio_low ratio_high p_value p_adjusted proof_p proof_adjusted",
    "text method",
)
VERDICTS = _columns("text run experiment subject kind state", "flag proven", "text reason")


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """Stored runs. Each method reads them and returns a data frame whose first column, `run`, is the id of the run.

    Unknown values are missing (`pandas.NA` or NaN), never 0. Each method raises StoreError where the store cannot be read.
    """

    store: str
    """The path or URL of the run store."""
    ids: tuple[str, ...]
    """Ids of the runs, newest first."""

    def __post_init__(self) -> None:
        """Raise SpecError without runs: a frame's columns are read from the runs."""
        if not self.ids:
            raise SpecError(
                "StoredRuns needs the id of a run: use runs.load() or runs.query(), which return stored runs"
            )

    def observations(self) -> pd.DataFrame:
        """Return one row for each score of a reply; where a score or a whole reply is lost, `lost` is the reason."""
        return self._read_stored(tables.observations)

    def replies(self) -> pd.DataFrame:
        """Return one row for each reply, with the sample's input and expected value."""
        return self._read_stored(tables.replies)

    def repeats(self) -> pd.DataFrame:
        """Return the prompt, training and round of each number of a repeat."""
        return self._read_stored(tables.repeats)

    def estimates(self) -> pd.DataFrame:
        """Return one row for each metric and arm: the value with its interval. `n` and `lost` count samples."""
        return self._read_loaded(ESTIMATES, _estimates)

    def comparisons(self) -> pd.DataFrame:
        """Return one row for each comparison: candidate minus baseline, signed so that positive is better."""
        return self._read_loaded(COMPARISONS, _comparisons)

    def verdicts(self) -> pd.DataFrame:
        """Return one row for each verdict, as the session gave it."""
        return self._read_loaded(VERDICTS, _verdicts)

    def _read_stored(self, read: Callable[[RunStore, str], ExportTable]) -> pd.DataFrame:
        with existing_store(self.store, reader=_READER) as store:
            read_tables = [read(store, run) for run in self.ids]
            return _frame(read_tables[0].columns, [row for table in read_tables for row in table.rows])

    def _read_loaded(
        self, columns: Mapping[str, ColumnKind], rows: Callable[[Run], Iterable[tuple[Any, ...]]]
    ) -> pd.DataFrame:
        with existing_store(self.store, reader=_READER) as store:
            loaded = [load_run(store, run) for run in self.ids]
        return _frame(columns, [row for run in loaded for row in rows(run)])


def load(run: str = "latest", *, store: str | Path | None = None) -> StoredRuns:
    """Return one stored run: by its id or the beginning of it, as `latest`, or by its tag (`tag:NAME`).

    `store` is a path or URL; by default the `crucible_store` of pytest's configuration here, as for the command line.
    Raises SpecError for an unknown run or store.
    """
    where = _location(store)
    with existing_store(where, reader=_READER) as opened:
        return StoredRuns(where, (opened.find_run(run),))


def query(
    *,
    adapter: str = "",
    suite: str = "",
    tag: str = "",
    since: str | datetime.date | None = None,
    store: str | Path | None = None,
) -> StoredRuns:
    """Return the stored runs that fit all conditions, newest first.

    `adapter` is the name of an arm, `suite` a text in the name of an experiment, `tag` a tag of the run. `since` is a date or a
    time, also as ISO 8601 text; without a time zone it is local time. `store` is as for `load`. Raises SpecError if no run
    fits, and for an invalid `since`.
    """
    where, start = _location(store), _parse_since(since)
    with existing_store(where, reader=_READER) as opened:
        summaries = list_runs(opened, tag=tag, suite=suite, adapter=adapter)
    ids = tuple(run.id for run in summaries if start is None or _time(run.started) >= start)
    if not ids:
        conditions = {"adapter": adapter, "suite": suite, "tag": tag, "since": since}
        conditions_text = ", ".join(f"{name}={value!r}" for name, value in conditions.items() if value)
        raise SpecError(
            f"run store {where!r} has no run with {conditions_text or 'an experiment'}: `crucible runs` lists its runs"
        )
    return StoredRuns(where, ids)


def _location(store: str | Path | None) -> str:
    return session_store() if store is None else str(store)


def _parse_since(since: str | datetime.date | None) -> datetime.datetime | None:
    if since is None:
        return None
    try:
        return _time(since if isinstance(since, str) else since.isoformat())
    except ValueError:
        raise SpecError(
            f"since={since!r} is not a time: write ISO 8601, such as 2026-01-31 or 2026-01-31T12:00"
        ) from None


def _time(text: str) -> datetime.datetime:
    time = datetime.datetime.fromisoformat(text)
    return time.astimezone() if time.tzinfo is None else time


def _estimates(run: Run) -> Iterator[tuple[Any, ...]]:
    for analysis in run.experiments:
        for estimate in analysis.estimates:
            values = pick(estimate, "metric statistic arm n lost inapplicable clusters value").values()
            yield (run.id, analysis.plan.nodeid, *values, *_interval(estimate.interval), estimate.method)


def _comparisons(run: Run) -> Iterator[tuple[Any, ...]]:
    for analysis in run.experiments:
        for comparison in analysis.comparisons:
            contrast = comparison.contrast
            yield (
                *(run.id, analysis.plan.nodeid, contrast.subject(comparison.candidate), contrast.expression),
                *(comparison.candidate, *pick(contrast, "baseline alternative margin relevant").values()),
                *pick(comparison, "pairs lost clusters").values(),
                *_differences(comparison),
                *pick(comparison, "p_value p_adjusted proof_p proof_adjusted method").values(),
            )


def _differences(comparison: Comparison) -> tuple[float | None, ...]:
    """Return difference, low, high and level, then the ratio with its ends. A ratio has no difference in the metric's units."""
    interval, ratio = comparison.interval, comparison.ratio
    if ratio is None:
        return (comparison.difference, *_interval(interval), None, None, None)
    ends = _interval(ratio.interval)
    return (None, None, None, ends[2], ratio.value, *ends[:2])


def _verdicts(run: Run) -> Iterator[tuple[Any, ...]]:
    for verdict in run.verdicts:
        yield (run.id, *pick(verdict, "nodeid subject kind state proven reason").values())


def _interval(interval: Interval | None) -> tuple[float | None, float | None, float | None]:
    return (interval.low, interval.high, interval.level) if interval else (None, None, None)


def _frame(columns: Mapping[str, ColumnKind], rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    # Imported here: it takes longer than everything else that a command imports.
    import pandas as pd

    frame = pd.DataFrame.from_records(rows, columns=list(columns))
    return frame.astype({name: _DTYPES[kind] for name, kind in columns.items()})
