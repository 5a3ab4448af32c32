"""Any table: CSV, TSV, JSON lines, a JSON list, or the columns and data that MLflow and W&B write.

Long: a row a metric, with its name in one column and its value in another. Wide: a row a sample, each metric a column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.importing.cells import number
from pytest_crucible.importing.columns import roles
from pytest_crucible.importing.results import Found, Results, Row
from pytest_crucible.importing.source import Source
from pytest_crucible.records import Reply, Value

_SUFFIX = re.compile(r"(/v\d+)?/(score|value)$")
"""What MLflow puts behind the name of a metric."""
Unit = tuple[str, str, str, int]
"""Task, arm, sample and repeat."""


def recognises(source: Source) -> bool:
    """Whatever is a table."""
    return source.rows is not None or bool(_rows(source))


def read(source: Source, columns: Mapping[str, str]) -> Found:
    """Raises SpecError for a table in which no column has the samples' ids or no column a score."""
    rows = _rows(source)
    has = list(dict.fromkeys(name for _, row in rows for name in row))
    role = roles(has, columns)
    if "sample" not in role:
        raise SpecError(
            f"{source.path} has no column of sample ids (it has {', '.join(has)}): name it with --column sample=NAME"
        )
    table = _Table(source, role)
    is_long = {"metric", "value"} <= set(role) and "metrics" not in role
    metrics = () if is_long else _metrics(rows, role, has)
    if not (is_long or metrics):
        raise SpecError(
            f"{source.path} has no column of numbers beside {', '.join(role.values())}: name the scores with --column metrics=A,B"
        )
    units = table.long(rows) if is_long else table.wide(rows, metrics)
    guessed = (
        () if is_long or "metrics" in columns else (f"{source.path.name}: taken as metrics are {', '.join(metrics)}",)
    )
    return Found(version="", results=list(_arms(units)), notes=guessed)


@dataclass(frozen=True, slots=True)
class _Table:
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

    def long(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[Unit, Row]:
        """A metric that a unit has no row of, and others have, is lost there."""
        cells: dict[Unit, dict[str, Any]] = {}
        first: dict[Unit, Mapping[str, Any]] = {}
        for line, row in rows:
            unit, metric = self._unit(line, row), str(row.get(self.role["metric"], ""))
            if metric in cells.setdefault(unit, {}):
                raise self._twice(line, unit)
            cells[unit][metric] = row.get(self.role["value"])
            first.setdefault(unit, row)
        names = dict.fromkeys(name for metrics in cells.values() for name in metrics if name)
        return {unit: self._row(unit, first[unit], {name: cells[unit].get(name) for name in names}) for unit in cells}

    def _unit(self, line: int, row: Mapping[str, Any]) -> Unit:
        sample, again = self._cell(row, "sample"), self._cell(row, "repeat")
        if not sample:
            raise SpecError(
                f"line {line} of {self.source.path} has no {self.role['sample']!r}: every row is of some sample"
            )
        if again and not re.fullmatch(r"\d+(\.0)?", again):
            raise SpecError(
                f"line {line} of {self.source.path} has repeat {again!r}: repeats are counted in whole numbers"
            )
        arm, task = self._cell(row, "arm"), self._cell(row, "task")
        return task or "results", arm or self.source.path.stem, sample, int(float(again or 0))

    def _cell(self, row: Mapping[str, Any], role: str) -> str:
        value = row.get(self.role.get(role, ""))
        return "" if value is None else str(value)

    def _row(self, unit: Unit, row: Mapping[str, Any], cells: Mapping[str, Any]) -> Row:
        values = {name: _value(cell) for name, cell in cells.items()}
        error, reply = self._cell(row, "error"), self._cell(row, "reply")
        known = {name: value for name, value in values.items() if value is not None}
        return Row(
            sample=unit[2],
            epoch=unit[3],
            scores=known,
            lost={name: error or "the table has no value" for name in values if name not in known},
            error=error if not known else "",
            reply=Reply(text=reply) if reply else None,
            group=self._cell(row, "group") or None,
        )

    def _twice(self, line: int, unit: Unit) -> SpecError:
        _, arm, sample, repeat = unit
        return SpecError(
            f"line {line} of {self.source.path} has sample {sample!r} of {arm!r} again in repeat {repeat}: "
            "name what tells them apart with --column repeat=NAME, arm=NAME or task=NAME"
        )


def _value(cell: Any) -> Value | None:
    found = number(cell)
    if found is None:
        return str(cell)
    return None if math.isnan(found) else found


def _metrics(rows: Sequence[tuple[int, Mapping[str, Any]]], role: Mapping[str, str], has: Sequence[str]) -> list[str]:
    """Those that the user names; else all other columns that have numbers and nothing else."""
    if "metrics" in role:
        return role["metrics"].split(",")
    found = []
    for name in (name for name in has if name not in role.values()):
        values = [number(row.get(name)) for _, row in rows]
        known = [value for value in values if value is not None]
        if len(known) == len(values) and not all(map(math.isnan, known)):
            found.append(name)
    return found


def _arms(units: Mapping[Unit, Row]) -> Iterator[Results]:
    """Repeats are counted from the first that a table has, 0 or 1."""
    first = min(unit[3] for unit in units)
    arms: dict[tuple[str, str], list[Row]] = {}
    for (task, arm, _, _), row in units.items():
        arms.setdefault((task, arm), []).append(replace(row, epoch=row.epoch - first))
    for (task, arm), rows in arms.items():
        yield Results(task=task, arm=arm, rows=rows, epochs=max(row.epoch for row in rows) + 1)


def _rows(source: Source) -> Sequence[tuple[int, Mapping[str, Any]]]:
    """A line of each row; of JSON the number of it."""
    given = source.document
    if source.rows is not None:
        return source.rows
    if isinstance(given, dict) and isinstance(given.get("columns"), list) and isinstance(given.get("data"), list):
        given = [dict(zip(given["columns"], row, strict=False)) for row in given["data"]]
    is_list = isinstance(given, list) and all(isinstance(row, dict) for row in given)
    return list(enumerate(given, start=1)) if is_list else []
