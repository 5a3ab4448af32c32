"""Copies the runs of shards into a run store as one run, in one transaction: rows of all tables that belong to a run.

Keys of experiments and arms are those of the target; everything else is as the shards have written it, redacted.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from types import NoneType
from typing import Any

from pytest_crucible.backends.budget import Amount, format_spent, read_budget
from pytest_crucible.features.scale.shard_files import ShardFile, limit_reading, merged_plan
from pytest_crucible.features.scale.shard_session import EXPECTED_FAILURES
from pytest_crucible.records import BUDGET, BudgetSpent, SentAgain
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import from_plain, to_plain
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection, Row, from_json
from pytest_crucible.store.events import load_budgets
from pytest_crucible.store.reused_outcomes import SENT_AGAIN, join_sent_again
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.table import Table

_PART = 10_000
"""Rows that are in memory at a time."""
_POSITIONS = 8_192
"""Samples whose rows are copied from all shards before those of further samples: 500 pages of a table, which SQLite's cache has."""
_SHARED = (schema.texts, schema.messages, schema.reply_cache, schema.known_adapters, schema.training_sets)
"""Tables whose rows belong to no run, under keys that equal rows share."""


def merged_run(files: Sequence[ShardFile]) -> str:
    """Return the id of the run that these shards make: the same one each time that they are merged."""
    return hashlib.sha256(" ".join(["merged", *(file.run for file in files)]).encode()).hexdigest()[:12]


def merge_shards(target: RunStore, files: Sequence[ShardFile]) -> str:
    """Enter the run of some shards, unless the store has it; return its id. Raises SpecError and StoreError."""
    run = merged_run(files)
    if target.scalar("SELECT COUNT(*) FROM runs WHERE id = :run", run=run):
        return run
    with target.begin() as connection:
        Merging(connection, run, files).copy()
    return run


class Merging:
    """Copies shards within a transaction of the target."""

    def __init__(self, connection: Connection, run: str, files: Sequence[ShardFile]) -> None:
        self._connection, self._run, self._files = connection, run, files
        self._experiments: dict[str, int] = {}
        """Keys in the target, by nodeid."""
        self._sent_again: dict[int, SentAgain] = {}
        """By arm of the target."""

    def copy(self) -> None:
        """Copy everything."""
        self._enter_run()
        for nodeid in self._files[0].plans:
            self._enter_experiment(nodeid)
        budgets: list[Sequence[BudgetSpent]] = []
        with ExitStack() as opened:
            copies = []
            for file in self._files:
                store = opened.enter_context(closing(file.store()))
                source = opened.enter_context(store.connect())
                limit_reading(source)
                copies.append(_Copy(self._connection, self._run, file, source))
                budgets.append(load_budgets(store, file.run))
            for copied in copies:
                copied.copy_shared(self._experiments)
                self._add_sent_again(copied.sent_again())
            self._copy_units(copies)
        self._enter_budgets(budgets)
        of = {"run": self._run, "subject": SENT_AGAIN}
        rows = [{**of, "number": arm, "body": to_plain(sent)} for arm, sent in self._sent_again.items()]
        self._connection.insert(schema.decisions, rows)

    def _copy_units(self, copies: Sequence[_Copy]) -> None:
        """Copy replies and scores in the order of their keys, over all shards.

        One shard after the other would change each page of a table once for each shard: what is written would grow with their
        number.
        """
        units = (schema.replies, schema.calls, schema.observations, schema.lost, *schema.unit_tables().values())
        for arm, planned in self._planned_by_arm(copies).items():
            for table in units:
                having = [copied for copied in copies if copied.has_rows(table, arm)]
                for start in range(0, planned if having else 0, _POSITIONS):
                    for copied in having:
                        copied.copy_units(table, arm, start, start + _POSITIONS)
                    self._connection.enter_changes()

    def _planned_by_arm(self, copies: Sequence[_Copy]) -> Mapping[int, int]:
        """Return the number of samples of each arm of the target."""
        return {arm: planned for copied in copies for arm, planned in copied.planned.items()}

    def _add_sent_again(self, of_shard: Mapping[int, SentAgain]) -> None:
        for arm, sent in of_shard.items():
            earlier = self._sent_again.get(arm)
            self._sent_again[arm] = sent if earlier is None else join_sent_again(earlier, sent)

    def _enter_run(self) -> None:
        first = self._files[0].facts
        git = first["git"] and {**first["git"], "dirty": any(file.facts["git"]["dirty"] for file in self._files)}
        row = {
            **first,
            "id": self._run,
            "started": min(file.facts["started"] for file in self._files),
            "finished": None,
            "status": "running",
            "exit_status": None,
            "git": git,
            "manifest": self._manifest(),
        }
        self._connection.insert(schema.runs, [row])

    def _manifest(self) -> dict[str, Any]:
        """Return the manifest of the first shard, as that of a session without shards, and where the rows are from."""
        manifest = dict(self._files[0].facts["manifest"])
        options = ("--crucible-shard", "--crucible-store", "--crucible-resume")
        return {
            **manifest,
            "command": list(_without_options(manifest["command"], options)),
            "settings": {**manifest["settings"], "shard": None, "resume": False},
            "shards": [{"shard": file.shard.option, "run": file.run, "file": file.name} for file in self._files],
        }

    def _enter_experiment(self, nodeid: str) -> None:
        row = {
            "run": self._run,
            "nodeid": nodeid,
            "plan": merged_plan(self._files, nodeid),
            "finished": all(file.plans[nodeid][2] for file in self._files),
        }
        self._connection.insert(schema.experiments, [row])
        query = "SELECT id FROM experiments WHERE run = :run AND nodeid = :nodeid"
        self._experiments[nodeid] = int(self._connection.scalar(query, run=self._run, nodeid=nodeid))

    def _enter_budgets(self, of_files: Sequence[Sequence[BudgetSpent]]) -> None:
        """Enter what all shards together have spent of each budget."""
        spent: dict[tuple[str, str], Amount] = {}
        for budget in (budget for budgets in of_files for budget in budgets):
            place, amount = (budget.experiment, budget.budget), Amount(budget.usd, budget.tokens, budget.requests)
            spent[place] = spent.get(place, Amount()).plus(amount)
        rows = [
            {
                "run": self._run,
                "experiment": experiment,
                "arm": "",
                "sample": "",
                "epoch": 0,
                "name": BUDGET,
                "at": time.time(),
                "facts": {"budget": text, **amount._asdict(), "said": format_spent(amount, read_budget(text))},
            }
            for (experiment, text), amount in spent.items()
        ]
        self._connection.insert(schema.events, rows)


def _without_options(arguments: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of a command line without some options and their values."""
    skips = False
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name in options:
            skips = not value and name != "--crucible-resume"
        elif not skips:
            yield argument
        else:
            skips = False


class _Copy:
    """Copies one shard, part by part."""

    def __init__(self, target: Connection, run: str, file: ShardFile, source: Connection) -> None:
        self._target, self._run, self._file, self._source = target, run, file, source
        self._arms: dict[int, int] = {}
        """Keys in the target, by those in the file."""
        self.planned: dict[int, int] = {}
        """The number of samples of each arm, by its key in the target."""

    def copy_shared(self, experiments: Mapping[str, int]) -> None:
        """Copy everything but the rows of units."""
        for nodeid, (key, plan, _) in self._file.plans.items():
            self._copy_experiment(key, experiments[nodeid], plan)
        # A whole form replaces an equal one whose texts stand apart: `crucible gc` would remove these with the other runs.
        is_older = schema.has_whole_forms(self._file.facts["format"])
        for table in _SHARED:
            self._copy_rows(table, "1 = 1", over=is_older and table is schema.messages)
        self._copy_rows(schema.events, "run = :key AND name <> :budget", key=self._file.run, budget=BUDGET)
        self._copy_rows(schema.tags, "run = :key", key=self._file.run)
        where = "run = :key AND subject <> :sent AND subject <> :own"
        self._copy_rows(schema.decisions, where, key=self._file.run, sent=SENT_AGAIN, own=EXPECTED_FAILURES)

    def has_rows(self, table: Table, arm: int) -> bool:
        """Return whether a table has rows of an arm of the target."""
        exists = f"SELECT EXISTS (SELECT 1 FROM {table.name} WHERE arm = :arm)"
        return bool(self._source.scalar(exists, arm=self._key(arm)))

    def copy_units(self, table: Table, arm: int, start: int, end: int) -> None:
        """Copy the rows of an arm of the target about the samples from a position to another one."""
        where = "arm = :key AND position >= :start AND position < :end"
        self._copy_rows(table, where, {"arm": arm}, is_unit=True, key=self._key(arm), start=start, end=end)

    def _key(self, arm: int) -> int | None:
        return next((key for key, target in self._arms.items() if target == arm), None)

    def _copy_experiment(self, source: int, target: int, plan: Mapping[str, Any]) -> None:
        """Copy what an experiment has that began: its samples and variants, and its arms."""
        query = f"SELECT {', '.join(schema.arms.names)} FROM arms WHERE experiment = :key ORDER BY id"
        arms = [dict(zip(schema.arms.names, row, strict=True)) for row in self._source.execute(query, key=source)]
        if not arms:
            return
        self._copy_shared(schema.samples, "dataset", plan["dataset_sha256"])
        for variant in plan["variants"]:
            self._copy_shared(schema.twins, "variant", variant["sha256"])
        for table in (schema.variants, schema.repeats):
            if not self._count(table, "experiment", target):
                self._copy_rows(table, "experiment = :key", {"experiment": target}, key=source)
        for arm in arms:
            key = self._arms[arm["id"]] = self._enter_arm(arm, target)
            self.planned[key] = plan["planned"]

    def _enter_arm(self, arm: Row, experiment: int) -> int:
        """Enter an arm, or add its counts to those of earlier shards; return its key in the target."""
        of = {"experiment": experiment, "number": arm["number"]}
        where = "experiment = :experiment AND number = :number"
        key = self._target.scalar(f"SELECT id FROM arms WHERE {where}", **of)
        if key is None:
            original = arm["original"] and self._arms[arm["original"]]
            row = {name: value for name, value in arm.items() if name != "id"}
            self._target.insert(schema.arms, [{**row, "experiment": experiment, "original": original}])
            return int(self._target.scalar(f"SELECT id FROM arms WHERE {where}", **of))
        with self._target.changing(schema.arms, where, **of):
            self._target.execute(f"UPDATE arms SET {_ADDED_COUNTS} WHERE {where}", **of, **{n: arm[n] for n in _COUNTS})
        return int(key)

    def _count(self, table: Table, column: str, key: Any) -> int:
        return int(self._target.scalar(f"SELECT COUNT(*) FROM {table.name} WHERE {column} = :key", key=key))

    def _copy_shared(self, table: Table, column: str, key: str) -> None:
        """Copy a dataset or variant, unless it is there."""
        if self._count(table, column, key):
            self._target.record_stored(table, column, key)
        else:
            self._copy_rows(table, f"{column} = :key", key=key)

    def sent_again(self) -> Mapping[int, SentAgain]:
        """Return which stored replies the shard has sent again, by arm of the target."""
        query = "SELECT number, body FROM decisions WHERE run = :run AND subject = :subject"
        rows = self._source.execute(query, run=self._file.run, subject=SENT_AGAIN)
        return {self._arms[arm]: from_plain(SentAgain, from_json(body)) for arm, body in rows if arm in self._arms}

    def _copy_rows(
        self,
        table: Table,
        where: str,
        others: Mapping[str, Any] | None = None,
        *,
        is_unit: bool = False,
        over: bool = False,
        **values: Any,
    ) -> None:
        """Copy the rows of a table that meet a condition, with `others` in place of values of the file.

        Rows of a unit must be new: two shards never have a reply to one sample. The caller then lets listeners enter the changes.
        Others are left as they are where they exist or, with `over`, replaced.
        """
        names = [column.name for column in table.columns if not column.numbered]
        query = f"SELECT {', '.join(names)} FROM {table.name} WHERE {where} ORDER BY {', '.join(table.key)}"
        cursor = self._source.execute(query, **values)
        while rows := cursor.fetchmany(_PART):
            columns = dict(zip(names, zip(*rows, strict=True), strict=True))
            inserted = self._insert(table, columns, len(rows), others or {}, over=over)
            if is_unit and inserted < len(rows):
                raise SpecError(f"{self._file.name} has replies to samples of another shard: run its job again")
            if not is_unit:
                self._target.enter_changes()

    def _insert(
        self, table: Table, rows: Mapping[str, Sequence[Any]], count: int, others: Mapping[str, Any], *, over: bool
    ) -> int:
        columns: dict[str, Sequence[Any]] = {}
        for name, values in rows.items():
            kinds = {*map(type, values)}
            if not kinds <= _KINDS[table.type_of(name).partition("(")[0]]:
                raise SpecError(
                    f"{self._file.name} has a value of another kind in {table.name}.{name}: run its job again"
                )
            # NULL is what a row has without a value; sqlite3 looks for a converter of each None.
            if kinds != {NoneType}:
                columns[name] = values if self._target.is_sqlite else _as_postgresql(table.type_of(name), values)
        columns |= {name: [value] * count for name, value in others.items()}
        if "run" in columns:
            columns["run"] = [self._run if value == self._file.run else value for value in columns["run"]]
        return self._target.insert_columns(table, columns, count, over=over)


_COUNTS = ("requests", "cache_hits", "cache_since", "reused_answers")
_ADDED_COUNTS = """
    requests = CASE WHEN requests IS NULL THEN :requests ELSE requests + COALESCE(:requests, 0) END,
    cache_hits = CASE WHEN cache_hits IS NULL THEN :cache_hits ELSE cache_hits + COALESCE(:cache_hits, 0) END,
    cache_since = CASE WHEN cache_since < :cache_since THEN cache_since ELSE COALESCE(:cache_since, cache_since) END,
    reused_answers = CASE WHEN reused_answers IS NULL THEN :reused_answers
        ELSE reused_answers + COALESCE(:reused_answers, 0) END
"""
_INTEGERS = frozenset((int, NoneType))
_TEXTS = frozenset((str, NoneType))
_KINDS = {
    "INTEGER": _INTEGERS,
    "BIGINT": _INTEGERS,
    "BOOLEAN": _INTEGERS,
    "FLOAT": _INTEGERS | {float},
    "TEXT": _TEXTS,
    "VARCHAR": _TEXTS,
    # SQLite stores a number in it as such.
    "JSON": _TEXTS | {int, float},
    "BLOB": frozenset((bytes, NoneType)),
}
"""What SQLite returns for a column, which may have a value of any kind."""


def _as_postgresql(type: str, values: Sequence[Any]) -> Sequence[Any]:
    if type == "BOOLEAN":
        return [None if value is None else bool(value) for value in values]
    if type == "JSON":
        return [json.dumps(value) if isinstance(value, int | float) else value for value in values]
    return values
