"""Rows of a table as results: one for each unit of a wide, a long or a counted table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_crucible.importers.generation import as_messages, finish_of
from pytest_crucible.importers.large_files import ParquetRows, rows_of
from pytest_crucible.importers.packed_rows import PackedRows, Packing, PlainRows, are_finite
from pytest_crucible.importers.results import Results, Row, Source, cell_value
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError

# The column of samples whose rows are samples of their own, numbered by their lines.
NUMBERED = "#"
_NAME = re.compile(r'(?:^|,)(?:"([^"]+)"(?=,|\Z)|([^,]*))')
# What MLflow puts behind the name of a metric.
_SUFFIX = re.compile(r"(/v\d+)?/(score|value)$")
# The metric of a table of counts.
SUCCESS = "success"
# Each arm of a table is read apart.
_MOST_PACKED = 8
_IDS = {str, int, float}
_ROLES_OF_PLAIN = {
    "sample",
    "input",
    "expected",
    "prompt",
    "error",
    "model",
    "metrics",
    "reply",
    "finish",
    "answered_by",
}
_OF_REPLIES = ("reply", "finish", "answered_by")
# Each is a row in memory, of about half a kilobyte.
MOST_TRIALS = 500_000
# Task, arm, sample and repeat.
Unit = tuple[str, str, str, int]


def split_names(names: str) -> list[str]:
    """Return the columns of a list, in which a name with a comma stands in double quotes.

    >>> split_names('sex,"income, yearly"')
    ['sex', 'income, yearly']
    """
    return [quoted or plain for quoted, plain in _NAME.findall(names)]


@dataclass(frozen=True, slots=True)
class TableRows:
    """Makes rows of the cells of a table, by the roles of its columns."""

    source: Source
    role: Mapping[str, str]

    def wide(self, rows: Sequence[tuple[int, Mapping[str, Any]]], metrics: Sequence[str]) -> dict[Unit, Row]:
        units: dict[Unit, Row] = {}
        for line, row in rows:
            unit = self._unit(line, row)
            if unit in units:
                raise self._twice(line, unit)
            units[unit] = self._row(unit, row, {_SUFFIX.sub("", name): row.get(name) for name in metrics})
        return units

    def pack_arms(
        self, rows: ParquetRows, metrics: Sequence[str], weights: Mapping[tuple[str, str], Mapping[str, str]]
    ) -> list[Results]:
        """Return the arms of a wide table of many rows; none for a table that has a unit twice, or very many arms."""
        arms = [self._arm(line, row) for line, row in rows.distinct(self._columns("task", "arm"))]
        if len(arms) > _MOST_PACKED:
            return []
        first = min((self._repeat(line, row) for line, row in rows.distinct(self._columns("repeat"))), default=0)
        named = {name: _SUFFIX.sub("", name) for name in metrics}

        def read(of_arm: tuple[str, str], numbered: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[Row]:
            for line, row in numbered:
                task, arm, sample, repeat = self._unit(line, row)
                if (task, arm) == of_arm:
                    yield self._row(
                        (task, arm, sample, repeat - first), row, {short: row[name] for name, short in named.items()}
                    )

        left_out = self._columns(*_OF_REPLIES)
        needed = [name for name in rows.names if name not in left_out or name in metrics]
        results = []
        for arm in dict.fromkeys(arms):
            packing, lines = Packing(), 0
            for columns in rows.batches(needed):
                lines, before = lines + len(columns[needed[0]]), lines
                if (plain := self._plain_rows(columns, named)) is not None:
                    packing.extend(plain)
                else:
                    packing.add(read(arm, enumerate(rows_of(columns), start=before + 1)))
            if packing.columns.has_repeated_units():
                return []
            repeats = max(packing.columns.repeats) + 1
            arm_rows = PackedRows(packing, partial(read, arm, rows))
            results.append(arm_results(*arm, arm_rows, repeats, weights))
        return results

    def _plain_rows(self, columns: Mapping[str, list[Any]], metrics: Mapping[str, str]) -> PlainRows | None:
        """Return rows of an only arm that have an id and all scores, and nothing else but texts; None for others."""
        if self.role["sample"] == NUMBERED or not self.role.keys() <= _ROLES_OF_PLAIN:
            return None
        ids, nothing = columns[self.role["sample"]], [None] * len(columns[self.role["sample"]])
        inputs, expected, prompts = (
            columns.get(self.role.get(name, ""), nothing) for name in ("input", "expected", "prompt")
        )
        is_plain = _IDS.issuperset(map(type, ids)) and all(map(str, ids))
        if not is_plain or any(columns.get(self.role.get("error", ""), ())):
            return None
        if not all(map(are_finite, (columns[name] for name in metrics))):
            return None
        return PlainRows(
            samples=[*map(str, ids)],
            scores={short: columns[name] for name, short in metrics.items()},
            inputs=[cell or None for cell in inputs],
            expected=expected,
            prompts=[as_messages(cell or None) for cell in prompts],
        )

    def counts(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[Unit, Row]:
        """Return a row for each trial: a sample's repeats, of which the first ones are successes. One without trials is lost."""
        units: dict[Unit, Row] = {}
        for line, row in rows:
            task, arm, sample, _ = unit = self._unit(line, row)
            if unit in units:
                raise self._twice(line, unit)
            successes, trials = self._counts(line, row)
            described = self._row(unit, row, {})
            for trial in range(trials):
                scores: dict[str, Value | None] = {SUCCESS: trial < successes}
                units[task, arm, sample, trial] = replace(described, repeat=trial, scores=scores, error="")
            if not trials:
                units[unit] = replace(described, error=described.error or "the table has no trial of it")
            if len(units) > MOST_TRIALS:
                raise SpecError(
                    f"{self.source.path} has more than {MOST_TRIALS:,} trials: name a column of rates with --column metrics=NAME"
                )
        return units

    def _counts(self, line: int, row: Mapping[str, Any]) -> tuple[int, int]:
        """Return successes and trials of a row, 0 for empty cells. Raises SpecError unless they are whole and possible."""
        cells = self._cell(row, "successes"), self._cell(row, "trials")
        if "" in cells:
            return 0, 0
        if all(cell and is_whole_number(cell) for cell in cells):
            successes, trials = (int(float(cell)) for cell in cells)
            if successes <= trials:
                return successes, trials
        raise SpecError(
            f"line {line} of {self.source.path} has {cells[0]!r} successes of {cells[1]!r} trials: write two whole numbers, the "
            "first at most the second"
        )

    def long(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[Unit, Row]:
        """Return the rows of a long table. A metric that only other units of the task have is lost, as is an empty value.

        Where a column `lost` exists and is empty, too, the metric does not apply.
        """
        cells: dict[Unit, dict[str, Any]] = {}
        spared: dict[Unit, set[str]] = defaultdict(set)
        first: dict[Unit, Mapping[str, Any]] = {}
        for line, row in rows:
            unit, metric = self._unit(line, row), str(row.get(self.role["metric"], ""))
            if metric in cells.setdefault(unit, {}):
                raise self._twice(line, unit)
            cells[unit][metric] = row.get(self.role["value"])
            # Our own export writes a reason into `lost`, so that in a row with neither the metric does not apply.
            if metric and "lost" in self.role and not (self._cell(row, "value") or self._cell(row, "lost")):
                spared[unit].add(metric)
            first.setdefault(unit, row)
        names: dict[str, dict[str, None]] = defaultdict(dict)
        for (task, *_), metrics in cells.items():
            names[task].update(dict.fromkeys(name for name in metrics if name))
        return {
            unit: self._row(unit, first[unit], {name: cells[unit].get(name) for name in names[unit[0]]}, spared[unit])
            for unit in cells
        }

    def weights(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[tuple[str, str], dict[str, str]]:
        """Return the model of each task and arm that has one in all rows."""
        if "model" not in self.role:
            return {}
        models: dict[tuple[str, str], set[str]] = defaultdict(set)
        if isinstance(rows, ParquetRows):
            # The cells of equal rows are checked once.
            rows = rows.distinct([self.role[name] for name in ("task", "arm", "model") if name in self.role])
        for line, row in rows:
            models[self._arm(line, row)].add(self._cell(row, "model"))
        return {
            arm: {"model": next(iter(named))} for arm, named in models.items() if len(named) == 1 and "" not in named
        }

    def _unit(self, line: int, row: Mapping[str, Any]) -> Unit:
        is_numbered = self.role["sample"] == NUMBERED
        sample = str(line) if is_numbered else self._name(line, row, "sample")
        if not sample:
            raise SpecError(
                f"line {line} of {self.source.path} has no {self.role['sample']!r}: every row needs the id of its sample"
            )
        repeat = self._repeat(line, row)
        task, arm = self._arm(line, row)
        self._name(line, row, "group")
        return task, arm, sample, repeat

    def _repeat(self, line: int, row: Mapping[str, Any]) -> int:
        again = self._name(line, row, "repeat")
        if not is_whole_number(again):
            raise SpecError(
                f"line {line} of {self.source.path} has repeat {again!r}: repeats are counted in whole numbers"
            )
        return int(float(again or 0))

    def _columns(self, *roles_: str) -> list[str]:
        """Return the columns of some roles that the table has."""
        return [self.role[name] for name in roles_ if name in self.role and self.role[name] != NUMBERED]

    def _arm(self, line: int, row: Mapping[str, Any]) -> tuple[str, str]:
        arm, task = self._name(line, row, "arm"), self._name(line, row, "task")
        return task or "results", arm or self.source.path.stem

    def _name(self, line: int, row: Mapping[str, Any], role: str) -> str:
        """Return the cell of a role that names something. Raises SpecError for an object or a list, which is no name."""
        if isinstance(row.get(self.role.get(role, "")), dict | list):
            raise SpecError(
                f"line {line} of {self.source.path} has an object or a list in {self.role[role]!r}, the column of the {role}: "
                f"name a column of plain values with --column {role}=NAME"
            )
        return self._cell(row, role)

    def _cell(self, row: Mapping[str, Any], role: str) -> str:
        value = row.get(self.role.get(role, ""))
        return "" if value is None else str(value)

    def _row(self, unit: Unit, row: Mapping[str, Any], cells: Mapping[str, Any], spared: Set[str] = frozenset()) -> Row:
        values = {name: cell_value(cell) for name, cell in cells.items()}
        error, reply = self._cell(row, "error"), self._cell(row, "reply")
        scored = {name: value for name, value in values.items() if value is not None}
        return Row(
            sample=unit[2],
            repeat=unit[3],
            scores={**scored, **dict.fromkeys(spared)},
            lost={name: error or "the table has no value" for name in values if name not in {*scored, *spared}},
            error=error if not scored else "",
            reply=self._reply(row) if reply else None,
            prompt=as_messages(row.get(self.role.get("prompt", "")) or None),
            parameters=self._settings(row),
            input=row.get(self.role.get("input", "")) or None,
            expected=row.get(self.role.get("expected", "")),
            group=self._cell(row, "group") or None,
            metadata={name: row[name] for name in self._names("metadata") if row.get(name) is not None},
        )

    def _names(self, role: str) -> list[str]:
        """Return the columns of a role that has a list of them; most tables have none."""
        return [name for name in split_names(self.role[role]) if name] if role in self.role else []

    def _reply(self, row: Mapping[str, Any]) -> Reply:
        finish = finish_of(self._cell(row, "finish"))
        return Reply(text=self._cell(row, "reply"), finish=finish, model=self._cell(row, "answered_by"))

    def _settings(self, row: Mapping[str, Any]) -> dict[str, Any]:
        cells = {name: cell_value(row.get(name)) for name in self._names("settings")}
        # A CSV file has 0.0 where a JSON file has 0.
        return {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in cells.items()
            if value is not None
        }

    def _twice(self, line: int, unit: Unit) -> SpecError:
        _, arm, sample, repeat = unit
        return SpecError(
            f"line {line} of {self.source.path} has sample {sample!r} of {arm!r} again in repeat {repeat}: "
            "name what tells them apart with --column repeat=NAME, arm=NAME or task=NAME"
        )


def arm_results(
    task: str,
    arm: str,
    rows: Sequence[Row],
    repeats: int,
    weights: Mapping[tuple[str, str], Mapping[str, str]],
    *,
    uneven: bool = False,
) -> Results:
    return Results(
        task=task,
        arm=arm,
        rows=rows,
        facts={SUCCESS: MetricFacts(name=SUCCESS, low=0.0, high=1.0)} if uneven else {},
        repeats=repeats,
        has_uneven_repeats=uneven,
        weights=weights.get((task, arm), {}),
    )


def is_whole_number(cell: str) -> bool:
    return not cell or re.fullmatch(r"\d+(\.0)?", cell) is not None
