"""Loads stored runs: analysed again with the verdicts given then, or as data frames."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_crucible import gate
from pytest_crucible.records import ColumnKind, Comparison, ExportTable, Run, Verdict
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.results import RULES_VERSION, rules_of
from pytest_crucible.records.serialize import pick
from pytest_crucible.runs.evaluate import analyse_run, concluded_run
from pytest_crucible.runs.plugins import Extensions, installed_extensions
from pytest_crucible.runs.run_analysis import alpha_at_end
from pytest_crucible.runs.run_store import existing_store, session_store
from pytest_crucible.stats.interval import Interval
from pytest_crucible.store import tables
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.runs import RunStore

if TYPE_CHECKING:
    import pandas as pd

Stored = Mapping[tuple[str, str], Mapping[str, Any]]
"""Stored verdicts by nodeid and subject."""


def load_run(store: RunStore, run: str, *, decide_again: bool = False) -> Run:
    """Return the run with this id. Nothing is written; verdicts on a killed run are decided by its stored replies.

    With `decide_again`, the verdicts that another version of the rules gave are decided by this one.

    Sections of plugins cannot be loaded. Their stored verdicts are shown nevertheless, and still share alpha.
    """
    return _load(store, run, installed_extensions(), _stored_verdicts(store, run), decide_again=decide_again)


def load_verdicts(store: RunStore, run: str) -> Run:
    """Return the run with what its verdicts were decided from, in a third of the time of `load_run`.

    It has sections only if some verdict is about one or none is stored, and no plans of a next run.
    """
    stored, extensions = _stored_verdicts(store, run), installed_extensions()
    needs_sections = not stored or any(verdict["kind"] == "claim" for verdict in stored.values())
    if not needs_sections:
        extensions = replace(extensions, sections={})
    return _load(store, run, extensions, stored, plans_next_run=False)


def _load(
    store: RunStore,
    run: str,
    extensions: Extensions,
    stored: Stored,
    *,
    decide_again: bool = False,
    plans_next_run: bool = True,
) -> Run:
    facts = store.run(run)
    settings = (facts["manifest"] or {}).get("settings") or {}
    alpha = alpha_at_end(store, run, extensions, facts["alpha"])
    analyses_by_key, family_size = analyse_run(
        store,
        run,
        extensions,
        alpha=alpha,
        interrupted=facts["status"] != "finished",
        memory=settings.get("memory", "off"),
        strict=settings.get("strict", False),
        stored_claims=sum((verdict["kind"] == "claim" and ": " in subject) for (_, subject), verdict in stored.items()),
        plans_next_run=plans_next_run,
    )
    analyses = list(analyses_by_key.values())
    rules = rules_of(facts["environment"])
    again = decide_again and rules != RULES_VERSION
    strict = again and settings.get("strict", False)
    decided = gate.decide_verdicts(analyses, alpha=alpha, strict=strict, family_size=family_size)
    verdicts = decided if again else tuple(_restore_verdicts(decided, stored))
    whole = concluded_run(store, run, facts["finished"] or "", family_size, analyses, verdicts, alpha=alpha)
    return replace(whole, exit_status=facts["exit_status"] or 0, rules=rules, decided_again=again)


def _stored_verdicts(store: RunStore, run: str) -> Stored:
    return {
        (plan.nodeid, subject): verdict
        for key, plan, _ in store.experiments(run)
        for subject, verdict in store.verdicts(key).items()
    }


def _restore_verdicts(decided: tuple[Verdict, ...], stored: Stored) -> Iterator[Verdict]:
    """Yield the verdicts as the session gave them: a hook may have waived one, or --crucible-strict asked for proof."""
    for verdict in decided:
        facts = stored.get((verdict.nodeid, verdict.subject), {})
        # Earlier versions called a margin met that nothing can exceed: such a proof is dropped.
        is_void = verdict.suite_error and facts.get("proven", False)
        yield verdict if is_void else replace(verdict, **facts)
    # Claims of a plugin's section cannot be computed without the plugin, but their stored verdicts are.
    decided_keys = {(verdict.nodeid, verdict.subject) for verdict in decided}
    for (nodeid, subject), facts in stored.items():
        if facts["kind"] == "claim" and (nodeid, subject) not in decided_keys:
            yield Verdict(nodeid=nodeid, subject=subject, **facts)


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
        with existing_store(self.store) as store:
            read_tables = [read(store, run) for run in self.ids]
            return _frame(read_tables[0].columns, [row for table in read_tables for row in table.rows])

    def _read_loaded(
        self, columns: Mapping[str, ColumnKind], rows: Callable[[Run], Iterable[tuple[Any, ...]]]
    ) -> pd.DataFrame:
        with existing_store(self.store) as store:
            loaded = [load_run(store, run) for run in self.ids]
        return _frame(columns, [row for run in loaded for row in rows(run)])


def load(run: str = "latest", *, store: str | Path | None = None) -> StoredRuns:
    """Return one stored run: by its id or the beginning of it, as `latest`, or by its tag (`tag:NAME`).

    `store` is a path or URL; by default the `crucible_store` of pytest's configuration here, as for the command line.
    Raises SpecError for an unknown run or store.
    """
    where = _location(store)
    with existing_store(where) as opened:
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
    with existing_store(where) as opened:
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
