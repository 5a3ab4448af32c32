"""Files of shards: read without trust in what they contain, and compared with each other before they are merged.

Nothing of a file is executed: it is opened for reading alone, and one with a trigger, a view, a virtual table or a computed
column is refused before any of its tables is queried.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pytest_crucible.features.scale.shard import Shard, parse_shard
from pytest_crucible.features.scale.shard_session import EXPECTED_FAILURES
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import SpecError, StoreError
from pytest_crucible.records.results import RULES_VERSION, rules_of
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection, from_json
from pytest_crucible.store.decisions import load_decisions
from pytest_crucible.store.opening import explain_errors
from pytest_crucible.store.reading import ReadOnlyFile
from pytest_crucible.store.runs import RunStore, newest_first

READER = "crucible merge"
LONGEST_VALUE = 64 << 20
"""The most bytes of one value that are read: a longer one is not a reply."""


@dataclass(frozen=True)
class ShardFile:
    """The run of a shard, in its file."""

    path: Path
    shard: Shard
    run: str
    facts: Mapping[str, Any]
    """The columns of the run."""
    plans: Mapping[str, tuple[int, Mapping[str, Any], bool]]
    """By nodeid, as they were entered: the experiment's key, its plan as plain data, and whether every sample was run."""
    expected_failures: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """The values of the session's options."""
        return (self.facts["manifest"] or {}).get("settings") or {}

    @property
    def is_complete(self) -> bool:
        """True if its session came to its end."""
        return self.facts["status"] == "finished" and self.facts["exit_status"] is not None

    def store(self) -> RunStore:
        """Open the file for reading; the caller closes it."""
        return RunStore(str(self.path), reader=READER)

    @cached_property
    def parsed_plans(self) -> Mapping[str, Plan]:
        return {nodeid: from_plain(Plan, plan) for nodeid, (_, plan, _) in self.plans.items()}


def read_shard(path: Path) -> ShardFile:
    """Return the latest run of a shard in a file. Raises SpecError and StoreError."""
    if not path.is_file():
        raise SpecError(f"{path} is not a file: name those that --crucible-shard wrote, such as crucible-shard-*.db")
    if not path.stat().st_size:
        raise SpecError(f"{path.name} is empty: get the file from its job again")
    try:
        with explain_errors(str(path)):
            _check_schema(path)
            with closing(RunStore(str(path), reader=READER)) as store:
                return _read(path, store)
    except StoreError as error:
        if "is corrupt" in str(error):
            raise StoreError(f"{path.name} is corrupt: get the file from its job again") from error
        raise StoreError(str(error) if path.name in str(error) else f"{path.name}: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SpecError(f"{path.name} cannot be read ({error}): get the file from its job again") from error


def _read(path: Path, store: RunStore) -> ShardFile:
    for run in newest_first(store):
        facts = store.run(run)
        option = ((facts["manifest"] or {}).get("settings") or {}).get("shard")
        if option:
            query = "SELECT nodeid, id, plan, finished FROM experiments WHERE run = :run ORDER BY id"
            rows = list(store.rows(query, run=run))
            file = ShardFile(
                path=path,
                shard=parse_shard(option),
                run=run,
                facts=facts,
                plans={nodeid: (key, from_json(plan), bool(finished)) for nodeid, key, plan, finished in rows},
                expected_failures=load_decisions(store, run, EXPECTED_FAILURES).get(0, {}),
            )
            # Read here for its errors.
            _ = file.parsed_plans
            return file
    raise SpecError(f"{path.name} has no run of a shard: name the files that --crucible-shard wrote")


def _check_schema(path: Path) -> None:
    """Raise SpecError for a file whose schema has something that would run where a table is read."""
    database = ReadOnlyFile(path, str(path))
    with database.connect() as connection:
        limit_reading(connection)
        tables = schema.all_tables()
        for kind, name, root in connection.execute("SELECT type, name, rootpage FROM sqlite_master"):
            is_active = kind not in ("table", "index") or not root
            if is_active or (name in tables and _has_computed_columns(connection, name)):
                what = "virtual table" if kind == "table" else kind
                raise SpecError(
                    f"{path.name} has a {what} {name!r} that would be executed: get the file from its job again"
                )


def _has_computed_columns(connection: Connection, table: str) -> bool:
    return bool(connection.scalar("SELECT COUNT(*) FROM pragma_table_xinfo(:table) WHERE hidden > 0", table=table))


def limit_reading(connection: Connection) -> None:
    """Let a connection read values of a bounded size, and trust no function that a file names."""
    connection.raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


# -- comparing -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shards:
    """The shards of one run, by their numbers, and what to say about them."""

    files: Sequence[ShardFile]
    notes: Sequence[str]
    missing: Sequence[Shard]


def read_shards(paths: Sequence[Path]) -> Shards:
    """Return the shards in some files. Raises SpecError for files that are not of one run, and StoreError."""
    files, notes = _drop_repeated([read_shard(path) for path in paths])
    _check_divisions(files)
    _check_equal(files)
    [of] = {file.shard.of for file in files}
    numbers = {file.shard.number for file in files}
    missing = [Shard(of, number) for number in range(1, of + 1) if number not in numbers]
    return Shards(sorted(files, key=lambda file: file.shard), notes, missing)


def _drop_repeated(files: Sequence[ShardFile]) -> tuple[list[ShardFile], list[str]]:
    """Return each shard once, and a sentence for each file that has the run of an earlier one."""
    by_shard: dict[Shard, ShardFile] = {}
    notes = []
    for file in files:
        first = by_shard.setdefault(file.shard, file)
        if first is not file and first.run != file.run:
            raise SpecError(f"{first.path} and {file.path} are two runs of shard {file.shard}: give one of them")
        if first is not file:
            notes.append(f"{file.name} was given twice: counted once")
    return list(by_shard.values()), notes


def _check_divisions(files: Sequence[ShardFile]) -> None:
    for file in files:
        if file.shard.of != files[0].shard.of:
            raise SpecError(f"shards {files[0].shard} and {file.shard} overlap: merge shards of one division")


class _Fact(NamedTuple):
    """Something that has to be equal in all shards, as a message says it: `at commit f2076be`, and of the others `at f2076be`."""

    text: str
    short: str


def _check_equal(files: Sequence[ShardFile]) -> None:
    """Raise SpecError for the first shard whose run differs from those of the others."""
    for facts in zip(*map(_facts_of, files), strict=False):
        [(usual, _)] = Counter(facts).most_common(1)
        for file, fact in zip(files, facts, strict=True):
            if fact != usual:
                raise SpecError(f"{file.name} ran {fact.text}, the others {usual.short}: run it again")


_SAME_SETTINGS = (
    *("adapter", "compare", "alpha", "strict", "undecided", "memory", "reasoning", "equal_inputs", "rounds", "timeout"),
    *("budget", "tinker"),
)
"""Options of which results depend."""


def _facts_of(file: ShardFile) -> Iterator[_Fact]:
    git, environment = file.facts["git"] or {}, file.facts["environment"]
    yield _fact("at", "commit", str(git.get("commit") or "none")[:7])
    yield _fact("with", "rules", f"version {rules_of(environment)}")
    yield _fact("with", "Python", ".".join(str(environment.get("python")).split(".")[:2]))
    for package, version in sorted(environment.get("packages", {}).items()):
        yield _fact("with", package, version)
    yield _fact("with", "seed", str(file.facts["seed"]))
    for name in _SAME_SETTINGS:
        yield _fact("with", f"crucible_{name} =", json.dumps(file.settings.get(name)))
    yield _fact("with", "the tests", " and ".join(sorted(nodeid.partition("::")[2] for nodeid in file.plans)))
    for nodeid, (_, plan, _) in sorted(file.plans.items()):
        yield from _plan_facts(nodeid.partition("::")[2], plan)


_WORDS = {"dataset_sha256": "dataset", "dataset": "dataset's name", "contrasts": "comparisons"}


def _plan_facts(test: str, plan: Mapping[str, Any]) -> Iterator[_Fact]:
    for part, value in plan.items():
        if part == "arms":
            for arm in value:
                yield _fact("with", f"adapter {arm['name']!r}", _short(arm), test)
        elif part == "fingerprint":
            for name, digest in value.items():
                yield _fact("with", name, _short(digest), test)
        elif part not in ("selected", "nodeid"):
            yield _fact("with", _WORDS.get(part, part), _short(value), test)


def _fact(preposition: str, noun: str, value: str, test: str = "") -> _Fact:
    return _Fact(f"{preposition} {noun} {value}{test and f' in {test}'}", f"{preposition} {value}")


def _short(value: Any) -> str:
    """Return a short text, equal for equal values."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= _LONGEST_FACT else hashlib.sha256(text.encode()).hexdigest()[:7]


_LONGEST_FACT = 20
"""Characters of a value that a message quotes."""


def check_version(files: Sequence[ShardFile]) -> None:
    """Raise SpecError for shards that another version of the rules would decide."""
    rules = rules_of(files[0].facts["environment"])
    if rules != RULES_VERSION:
        raise SpecError(
            f"{files[0].name} was written by version {rules} of the rules, and this is version {RULES_VERSION}: "
            "merge with the pytest-crucible that ran the shards"
        )


def merged_plan(files: Sequence[ShardFile], nodeid: str) -> Mapping[str, Any]:
    """Return the plan of the merged run. Only the number of selected samples differs between shards."""
    selected = 0
    for file in files:
        _, plan, _ = file.plans[nodeid]
        # The items of a joined test run one by one: of an interrupted session, it is not known how many did.
        is_counted = file.is_complete or not file.parsed_plans[nodeid].by_item
        selected += plan["selected"] if is_counted else 0
    return {**files[0].plans[nodeid][1], "selected": selected}
