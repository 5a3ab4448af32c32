"""Finds a run by its id or the beginning of it, as the latest run, or by a tag."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_crucible.features import load_rows
from pytest_crucible.records import Draws, Plan, PlannedVariant, Sample, Variant, Verdict
from pytest_crucible.records.errors import SpecError, closest_name, suggest
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.secret_settings import process_hider
from pytest_crucible.records.serialize import from_plain, pick, plain_or_repr, to_plain
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection, Row, from_json, json_part
from pytest_crucible.store.opening import explain_errors, open_database, redact_location
from pytest_crucible.store.reading import check_format, open_for_reading
from pytest_crucible.store.redactors import IdRedactor, ParameterRedactor, RedactOnce, read_store_key
from pytest_crucible.store.rows import redact_ids, twin_row, variant_rows
from pytest_crucible.store.spill_file import load_spill_files, write_spill_file
from pytest_crucible.store.table import Table
from pytest_crucible.store.texts import sanitize_text
from pytest_crucible.store.written_rows import WrittenRows

if TYPE_CHECKING:
    from pytest_crucible.store.writer import Writer

LATEST, TAGGED = "latest", "tag:"
DELETING = "deleting"
"""The status of a run whose rows `crucible gc` is removing, or was when it was interrupted. Nothing else shows or compares it."""


class UnknownRunError(SpecError):
    """A run that no id in the store begins with."""

    def __init__(self, location: str, named: str, near: str | None, latest: str) -> None:
        """`near` is the id that was probably meant, `latest` that of the latest run."""
        self.near, self.latest = near, latest
        hint = f"did you mean {near!r}?" if near else f"the latest is {latest!r}"
        super().__init__(f"run store {location!r} has no run that begins with {named!r}: {hint}")


_NEAR = 0.5
"""Similarity from which an id is suggested for another: two random ids agree in a third of their letters by chance."""


def find_run(store: RunStore, named: str) -> str:
    """Return the id of the one run that a name fits. Raises SpecError, with the nearest names."""
    if named.startswith(TAGGED):
        return _find_tagged(store, sanitize_text(named.removeprefix(TAGGED)))
    location, ids = store.location, newest_first(store)
    if not ids:
        raise SpecError(f"run store {location!r} has no runs yet: run an experiment first, or name another store")
    if named in ("", LATEST):
        return ids[0]
    matches = [run for run in ids if run.startswith(named)]
    if not matches:
        raise UnknownRunError(location, named, closest_name(named, ids, cutoff=_NEAR), ids[0])
    if len(matches) > 1 and named not in matches:
        raise SpecError(f"{named!r} matches {len(matches)} runs in {location!r}: give more characters of the id")
    return named if named in matches else matches[0]


def newest_first(store: RunStore) -> list[str]:
    """Return all runs, the last one entered first: a clock that is set back does not change this order."""
    query = """
        SELECT runs.id FROM runs
        LEFT JOIN (SELECT run, MIN(id) AS first FROM experiments GROUP BY run) entered ON entered.run = runs.id
        WHERE runs.status <> :deleting
        ORDER BY COALESCE(entered.first, 0) DESC, runs.started DESC
    """
    return list(store.scalars(query, deleting=DELETING))


def _find_tagged(store: RunStore, name: str) -> str:
    """Return the run that was promoted to this name last, or else the run that was tagged with it last."""
    run = store.scalar("SELECT run FROM tags WHERE name = :name ORDER BY promoted DESC, id DESC LIMIT 1", name=name)
    if run is None:
        names: Sequence[str] = sorted(store.scalars("SELECT DISTINCT name FROM tags"))
        there = f"it has {', '.join(names)}; " if names else ""
        promote = f"`crucible runs tag RUN {name}` makes a run the baseline of that name"
        hint = suggest(name, names, otherwise=there + promote)
        raise SpecError(f"run store {store.location!r} has no tag {name!r}: {hint}")
    return str(run)


_PART = 5_000
"""Samples entered at a time."""


class RunStore:
    """A database of runs. Every method raises StoreError when the database fails."""

    def __init__(
        self,
        location: str,
        hide: Callable[[str], str] | None = None,
        hide_keys: Callable[[str], str] | None = None,
        is_left_out: Callable[[str], bool] = lambda plugin: False,
        *,
        reader: str = "",
    ) -> None:
        """`hide` redacts each text before it is stored, `hide_keys` names and ids too: without them, what the process knows.

        `is_left_out` returns whether the feature with this plugin name is left out. `reader` is a command that only reads:
        nothing is created, upgraded or entered for it, and nothing can be written.
        """
        self.location = redact_location(location)
        self.hide = hide or process_hider()
        self.redact_once = RedactOnce(self.hide)
        self.where, self.run_id = location, ""
        """`where` is the location as it was given: it may have a password, and is never shown."""
        self.database = open_for_reading(location, reader) if reader else open_database(location)
        self._reader, self._shared = reader, threading.local()
        redactor = ParameterRedactor(hide_keys or self.hide, self.redact_once.is_redacted)
        self.database.redact = redactor.redact_values
        self.database.listeners = [
            listen() for feature, listen in load_rows("commit_listeners") if not is_left_out(feature.plugin_name)
        ]
        self.written = WrittenRows(redactor.redact)
        if not reader:
            self._prepare_writing(location)

    def _prepare_writing(self, location: str) -> None:
        """Read what writing needs, and enter the rows that wait in files."""
        try:
            with explain_errors(self.location):
                self.key = read_store_key(self.database)
                """Read while the database works: it signs what a database that fails does not take."""
            self.hide_id = IdRedactor(self.hide, self.key)
            load_spill_files(self.database, self.key, location)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.database.dispose()

    # -- queries; each method, here and below, raises StoreError when the database fails ----------------------------

    @contextlib.contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a connection for several queries, or use the one that this thread shares."""
        shared = getattr(self._shared, "connection", None)
        if shared is not None:
            with explain_errors(self.location):
                yield shared
            return
        with explain_errors(self.location), self.database.connect() as connection:
            # A session with a newer version may have upgraded it since it was opened.
            if self._reader and connection.scalar("SELECT version FROM store_format") != schema.FORMAT:
                check_format(connection, self.location, self._reader)
            if connection.parts is None and connection.first("SELECT id FROM parts LIMIT 1"):
                # Most stores have none. Another process may have written the first ones since this store was opened.
                from pytest_crucible.store.part_reader import PartReader

                self.database.parts = connection.parts = PartReader()
            yield connection

    @contextlib.contextmanager
    def one_connection(self) -> Iterator[None]:
        """Let this thread's queries share a connection: opening one takes longer than reading a few rows."""
        with self.connect() as connection:
            self._shared.connection = connection
            try:
                yield
            finally:
                self._shared.connection = None

    @contextlib.contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction."""
        with explain_errors(self.location), self.database.begin() as connection:
            yield connection

    def rows(self, query: str, /, **values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        with self.connect() as connection:
            yield from connection.execute(query, **values)

    def scalars(self, query: str, /, **values: Any) -> Iterator[Any]:
        """Yield the first value of each row of a query."""
        return (row[0] for row in self.rows(query, **values))

    def first(self, query: str, /, **values: Any) -> Any:
        """Return the first row; None without one."""
        with self.connect() as connection:
            return connection.first(query, **values)

    def scalar(self, query: str, /, **values: Any) -> Any:
        """Return the first value of the first row; None without a row."""
        with self.connect() as connection:
            return connection.scalar(query, **values)

    def execute(self, statement: str, /, **values: Any) -> None:
        """Execute a statement."""
        with self.connect() as connection:
            connection.execute(statement, **values)

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert rows, except those that are there already."""
        with self.begin() as connection:
            connection.insert(table, rows)

    def update(self, table: Table, assignments: str, where: str, /, **values: Any) -> None:
        """Change the rows of a table that meet a condition, and let listeners know."""
        with self.begin() as connection, connection.changing(table, where, **values):
            connection.execute(f"UPDATE {table.name} SET {assignments} WHERE {where}", **values)

    def writer(self, *, stores_texts: bool = True) -> Writer:
        """Return a background writer of outcomes; the caller closes it. See `CallRows` for `stores_texts`."""
        # Imported here: a stored run is shown without it.
        from pytest_crucible.store.writer import Writer

        return Writer(
            self.database,
            self.location,
            self.redact_once,
            lambda rows: write_spill_file(self.where, self.key, self.run_id, rows),
            lambda: self.run_id,
            self.hide_id,
            self.written,
            stores_texts=stores_texts,
        )

    # -- runs ---------------------------------------------------------------------------------------------------

    def begin_run(self, run: str, **facts: Any) -> None:
        """Enter a run, once: under xdist every worker calls this, and the first call counts."""
        self.run_id = run
        self.insert(
            schema.runs, [{"id": run, "status": "running", "format": schema.FORMAT, **redact(facts, self.hide)}]
        )

    def end_run(self, run: str, *, finished: str, status: str) -> None:
        statement = "UPDATE runs SET finished = :finished, status = :status WHERE id = :run"
        self.execute(statement, run=run, finished=finished, status=status)

    def set_exit_status(self, run: str, exit_status: int) -> None:
        self.execute("UPDATE runs SET exit_status = :exit_status WHERE id = :run", run=run, exit_status=exit_status)

    def run(self, run: str) -> Mapping[str, Any]:
        """Return all columns of a run."""
        with self.connect() as connection:
            (row,) = connection.named_rows("SELECT * FROM runs WHERE id = :run", run=run)
        return row | {name: from_json(row[name]) for name in ("git", "environment", "manifest")}

    def find_run(self, named: str = "") -> str:
        """Return the id of a run that is named by its id, the beginning of it, `latest` (or nothing) or `tag:NAME`.

        Raises SpecError, with the nearest names.
        """
        return find_run(self, named)

    # -- experiments --------------------------------------------------------------------------------------------

    def enter_plan(self, run: str, plan: Plan) -> None:
        """Enter an experiment before it begins, so that its comparisons count even if the session is cut short."""
        row = {"run": run, "nodeid": plan.nodeid, "plan": redact(to_plain(plan), self.hide), "finished": False}
        self.insert(schema.experiments, [row])

    def replace_plan(self, run: str, plan: Plan) -> None:
        """Update the plan of an experiment, when the winner of its sweep or its next trial is known."""
        of = {"run": run, "nodeid": plan.nodeid}
        changed = {"plan": json.dumps(redact(to_plain(plan), self.hide)), "finished": False}
        self.update(
            schema.experiments, "plan = :plan, finished = :finished", "run = :run AND nodeid = :nodeid", **of, **changed
        )
        unanswered = """
            fingerprint = '' AND experiment = (SELECT id FROM experiments WHERE run = :run AND nodeid = :nodeid)
        """
        with self.begin() as connection, connection.changing(schema.arms, unanswered, **of):
            connection.execute(f"DELETE FROM arms WHERE {unanswered}", **of)

    def enter_unanswered(self, run: str, plan: Plan, samples: Sequence[Sample]) -> None:
        """Enter an experiment with arms that no request is sent for, so that its verdicts are undecided."""
        key = self.add_experiment(run, plan, samples)
        for number, arm in enumerate(plan.arms):
            self.add_arm(key, number, arm.name, "")

    def add_experiment(self, run: str, plan: Plan, samples: Sequence[Sample], variants: Sequence[Variant] = ()) -> int:
        """Enter an experiment, its samples and their variants, and return its key. Safe to call again, from any process."""
        self.enter_plan(run, plan)
        self._add_samples(plan.dataset_sha256, samples)
        query = "SELECT id FROM experiments WHERE run = :run AND nodeid = :nodeid"
        key = int(self.scalar(query, run=run, nodeid=plan.nodeid))
        self.insert(schema.variants, variant_rows(key, plan))
        for planned, variant in zip(plan.variants, variants, strict=False):
            self._add_twins(planned, variant, samples)
        # Arms with fewer trainings have the first of these repeats.
        tables = [plan.draws(number) for number in range(len(plan.arms))]
        largest = max(tables, key=lambda draws: draws.trainings, default=Draws(repeats=plan.repeats))
        levels = [largest.levels(k) for k in range(largest.size // largest.prompts)]
        repeats = [
            {"experiment": key, "number": k, "round": of.rounds, "epoch": of.repeats, "training": of.trainings}
            for k, of in enumerate(levels)
        ]
        self.insert(schema.repeats, repeats)
        return key

    def add_arm(
        self,
        experiment: int,
        number: int,
        name: str,
        fingerprint: str,
        *,
        variant: int | None = None,
        original: int | None = None,
    ) -> int:
        """Enter an arm of an experiment, and return its key. Safe to call again.

        An arm on a `variant` of the samples refers to the `original`, the same arm on the original samples.
        """
        row = {"experiment": experiment, "number": number, "name": name, "fingerprint": fingerprint}
        self.insert(schema.arms, [{**row, "variant": variant, "original": original}])
        query = "SELECT id FROM arms WHERE experiment = :experiment AND number = :number"
        return int(self.scalar(query, experiment=experiment, number=number))

    def add_requests(self, run: str, nodeid: str, arm: str, *, requests: int, hits: int, since: float | None) -> None:
        """Add to an arm's counts of requests to the reply cache and of hits: several workers may each add their part."""
        more = """
            requests = COALESCE(requests, 0) + :requests,
            cache_hits = COALESCE(cache_hits, 0) + :hits,
            cache_since = CASE WHEN cache_since < :since THEN cache_since ELSE COALESCE(:since, cache_since) END
        """
        where = """
            experiment = (SELECT id FROM experiments WHERE run = :run AND nodeid = :nodeid)
            AND name = :arm AND variant IS NULL
        """
        of = {"run": run, "nodeid": nodeid, "arm": arm}
        self.update(schema.arms, more, where, **of, requests=requests, hits=hits, since=since)

    def has_arms(self, experiment: int) -> bool:
        """Return whether the experiment began. One that was skipped, or whose fixtures failed, has a plan and no arms."""
        return bool(self.scalar("SELECT COUNT(*) FROM arms WHERE experiment = :experiment", experiment=experiment))

    def finish_experiment(self, experiment: int) -> None:
        self.update(schema.experiments, "finished = :true", "id = :experiment", experiment=experiment, true=True)

    def experiments(self, run: str) -> list[tuple[int, Plan, bool]]:
        """Return (key, plan, whether every sample was run) of each experiment of a run, as they were entered.

        The choosing half of a sweep is not among them: it belongs to the experiments that it chooses for.
        """
        return [entry for entry in self.all_experiments(run) if not entry[1].chooses]

    def all_experiments(self, run: str) -> list[tuple[int, Plan, bool]]:
        """Return what `experiments` does, and the choosing halves of sweeps."""
        query = "SELECT id, plan, finished FROM experiments WHERE run = :run ORDER BY id"
        rows = list(self.rows(query, run=run))
        return [(key, from_plain(Plan, from_json(plan)), bool(finished)) for key, plan, finished in rows]

    def set_kinds(self, experiment: int, kinds: Mapping[str, str]) -> None:
        """Store the kinds of the experiment's metrics."""
        text = json.dumps(dict(kinds))
        self.update(schema.experiments, "kinds = :kinds", "id = :experiment", experiment=experiment, kinds=text)

    def known_kinds(self, plan: Plan, before: int) -> dict[str, str]:
        """Return the kinds of the metrics in the experiment's latest earlier run; empty if metrics or test changed."""
        query = """
            SELECT kinds, plan FROM experiments WHERE nodeid = :nodeid AND id < :before AND kinds IS NOT NULL
            ORDER BY id DESC LIMIT 1
        """
        row = self.first(query, nodeid=plan.nodeid, before=before)
        if row is None:
            return {}
        kinds, earlier_plan = map(from_json, row)
        then, now = from_plain(Plan, earlier_plan).fingerprint, plan.fingerprint
        same = (then.metrics, then.function) == (now.metrics, now.function)
        return dict(kinds) if same else {}

    def add_verdicts(self, experiment: int, verdicts: Sequence[Verdict]) -> None:
        rows = [
            {
                "experiment": experiment,
                **pick(verdict, "subject kind state proven"),
                "reason": sanitize_text(self.hide(verdict.reason)),
            }
            for verdict in verdicts
        ]
        self.insert(schema.verdicts, rows)

    def verdicts(self, experiment: int) -> dict[str, dict[str, Any]]:
        """Return the verdicts of an experiment by subject: kind, state, proven and reason of each."""
        query = "SELECT subject, kind, state, proven, reason FROM verdicts WHERE experiment = :experiment"
        return {
            subject: {"kind": kind, "state": state, "proven": bool(proven), "reason": reason}
            for subject, kind, state, proven, reason in self.rows(query, experiment=experiment)
        }

    def stored_twins(self, run: str, nodeid: str, variant: int, sha256: str) -> tuple[int, str] | None:
        """Return arm key and full run id of the replies of a run's candidate to twins with this hash; None without any.

        `variant` is their number in another plan, which has the same prompts.
        """
        original, full, plan = self.stored_candidate(run, nodeid)
        query = """
            SELECT arms.id FROM arms
            JOIN variants ON variants.experiment = arms.experiment AND variants.number = arms.variant
            WHERE arms.original = :original AND variants.sha256 = :sha256 AND variants.prompt = :prompt
        """
        prompt = variant % max(len(plan.prompts), 1)
        key = self.scalar(query, original=original, sha256=sha256, prompt=prompt)
        return None if key is None else (key, full)

    def stored_candidate(self, run: str, nodeid: str, variant: int = 0) -> tuple[int, str, Plan]:
        """Return arm key, full run id and plan of a run's candidate; `run` is a name for `find_run`. Raises SpecError.

        With a `variant` it is the candidate's arm on that variant of the samples.
        """
        full = self._latest_measurement() if run in ("", LATEST) else self.find_run(run)
        query = """
            SELECT arms.id, experiments.plan FROM experiments JOIN arms ON arms.experiment = experiments.id
            WHERE experiments.run = :run AND experiments.nodeid = :nodeid
        """
        of = {"run": full, "nodeid": nodeid}
        row = self.first(f"{query} AND arms.number = 0", **of)
        if row is not None and variant:
            of_variant = f"{query} AND arms.variant = :variant AND arms.original = :original"
            row = self.first(of_variant, **of, variant=variant, original=row[0])
        if row is None:
            raise SpecError(
                f"run {full} has no replies of {nodeid} in {self.location!r}: compare with a run that has them"
            )
        plan = from_plain(Plan, from_json(row[1]))
        if plan.purpose == "explanation":
            raise SpecError(f"run {full} explains replies to changed prompts: compare with a run that has all of them")
        return row[0], full, plan

    def _latest_measurement(self) -> str:
        """Return the latest run that is no explanation of replies, or the latest of all. Raises SpecError without runs."""
        explaining = self.explaining_runs()
        return next((run for run in newest_first(self) if run not in explaining), None) or self.find_run("")

    def explaining_runs(self) -> frozenset[str]:
        """Return the runs whose manifests say that they explain replies."""
        explains = json_part("manifest", "explains", is_sqlite=self.database.is_sqlite)
        return frozenset(self.scalars(f"SELECT id FROM runs WHERE {explains} IS NOT NULL"))

    def hide_ids(self, ids: Sequence[str]) -> Sequence[str]:
        """Return ids, or groups, as the store has them."""
        return redact_ids(ids, self.hide, self.hide_id)

    def _add_samples(self, dataset: str, samples: Sequence[Sample]) -> None:
        stored = "SELECT COUNT(*) FROM samples WHERE dataset = :dataset"
        # Formats before 4 had no metadata. A dataset's hash covers it, so that rows of one hash can only lack all of it.
        has_metadata = any(sample.metadata for sample in samples[:_PART])
        lacking = has_metadata and not self.scalar(f"{stored} AND metadata IS NOT NULL", dataset=dataset)
        if self.scalar(stored, dataset=dataset) == len(samples) and not lacking:
            with self.begin() as connection:
                connection.record_stored(schema.samples, "dataset", dataset)
            return
        with self.begin() as connection, contextlib.ExitStack() as replacing:
            if lacking:
                replacing.enter_context(connection.changing(schema.samples, "dataset = :dataset", dataset=dataset))
            for part in _parts(samples):
                ids = self.hide_ids([sample.id for _, sample in part])
                rows = [
                    self._sample_row(dataset, position, sample, sample_id)
                    for (position, sample), sample_id in zip(part, ids, strict=True)
                ]
                connection.insert(schema.samples, rows, over=lacking)

    def _sample_row(self, dataset: str, position: int, sample: Sample, sample_id: str) -> dict[str, Any]:
        return {
            "dataset": dataset,
            "position": position,
            "sample_id": sample_id,
            "sample_group": sample.cluster and self.hide_id(sanitize_text(sample.cluster)),
            "input": redact(plain_or_repr(sample.input), self.hide),
            "expected": redact(plain_or_repr(sample.expected), self.hide),
            "metadata": redact(plain_or_repr(sample.metadata), self.hide) if sample.metadata else None,
        }

    def _add_twins(self, planned: PlannedVariant, variant: Variant, samples: Sequence[Sample]) -> None:
        stored = self.scalar("SELECT COUNT(*) FROM twins WHERE variant = :variant", variant=planned.sha256)
        if stored == len(samples):
            with self.begin() as connection:
                connection.record_stored(schema.twins, "variant", planned.sha256)
            return
        for part in _parts(samples):
            rows = [twin_row(planned.sha256, place, sample, variant, self.hide) for place, sample in part]
            self.insert(schema.twins, rows)


def _parts(samples: Sequence[Sample]) -> Iterator[list[tuple[int, Sample]]]:
    """Yield samples with their positions in parts: all rows at once would take much more memory than the samples."""
    for start in range(0, len(samples), _PART):
        yield list(enumerate(samples[start : start + _PART], start=start))
