"""Readers of formats whose files are records with fields, as `record_formats.toml` names them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from pytest_crucible.importers.generation import finish_of, generation_settings
from pytest_crucible.importers.results import (
    ParsedFile,
    Record,
    Results,
    Row,
    Source,
    amount,
    as_text,
    cell_value,
    number_repeats,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical

_DOCUMENT = "document"
MISSING = "the file has no value"


def _same(record: Record) -> Record:
    return record


def _nothing(of: Any) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class RecordReader:
    """The reader of one of the formats of `record_formats.toml`."""

    name: str
    prepare: Callable[[Record], Record] = _same
    """Adds fields to a record, such as a total that the file does not have."""
    declared: Callable[[Sequence[Record]], Mapping[str, MetricFacts]] = _nothing
    """The facts of metrics that the records declare."""
    beside: Callable[[Source], Mapping[str, Any]] = _nothing
    """What other files next to the source have: `repeats` of each sample, and fields of `Results`, `arm`, `facts`, `weights`."""

    @property
    def fields(self) -> Mapping[str, Any]:
        fields: Mapping[str, Any] = _formats()[self.name]
        return fields

    def recognises(self, source: Source) -> bool:
        """Return whether the first record has the fields of the format."""
        first = next(iter(self._records(source)), None)
        return isinstance(first, Mapping) and all(_has(first, path) for path in self.fields["has"])

    def read(self, source: Source, columns: Mapping[str, str]) -> ParsedFile:
        """Return the arms of the file. Repeats are those that it numbers or declares, or else recurring samples.

        Raises SpecError for a record without the fields of the format.
        """
        self._check(source)
        records = [self.prepare({**record, _DOCUMENT: source.document}) for record in self._records(source)]
        tasks: dict[str, list[Record]] = {}
        for record in records:
            tasks.setdefault(self._text(record, "task") or self.name, []).append(record)
        arms: dict[tuple[str, str], list[Row]] = {}
        left_out: dict[str, None] = {}
        for task, of_task in tasks.items():
            metrics, others = self._split_metrics(of_task)
            left_out.update(dict.fromkeys(others))
            for record in of_task:
                names = (task, self._text(record, "arm") or source.path.stem)
                arms.setdefault(names, []).append(self._row(record, metrics))
        beside = dict(self.beside(source))
        declared = int(beside.pop("repeats", 0) or self._find(records[0], "repeats") or 0)
        facts = self.declared(records)
        results = [replace(self._results(*names, rows, declared, facts), **beside) for names, rows in arms.items()]
        notes = [f"{source.path.name}: the values of {name!r} are no numbers, left out" for name in left_out]
        return ParsedFile(version=self._text(records[0], "version"), results=results, notes=notes)

    def _split_metrics(self, records: Sequence[Record]) -> tuple[list[str], list[str]]:
        """Return the names of scores that are metrics, and of those without any number."""
        has_values: dict[str, bool] = {}
        for name, value in (pair for record in records for pair in self._scores(record)):
            has_values[name] = has_values.get(name, False) or value is not None
        return [name for name, has in has_values.items() if has], [name for name, has in has_values.items() if not has]

    def _check(self, source: Source) -> None:
        for number, record in enumerate(self._records(source), start=1):
            missing = [path for path in self.fields["has"] if not (isinstance(record, Mapping) and _has(record, path))]
            if missing:
                raise SpecError(
                    f"record {number} of {source.path} has no {missing[0]!r}, as records of {self.name} have: give a file of one "
                    "format and version"
                )

    def _records(self, source: Source) -> Sequence[Record]:
        if "rows" not in self.fields:
            return source.records
        document = source.document if isinstance(source.document, dict) else {}
        rows = document.get(self.fields["rows"])
        return rows if isinstance(rows, list) else ()

    def _results(
        self, task: str, arm: str, rows: Sequence[Row], declared: int, facts: Mapping[str, MetricFacts]
    ) -> Results:
        is_numbered = "repeat" in self.fields
        numbered = _counted_from_zero(rows) if is_numbered else number_repeats(rows, declared)
        shares = self.fields.get("shares", ())
        return Results(
            task=task,
            arm=arm,
            rows=numbered,
            facts={**facts, **{name: MetricFacts(name=name, low=0.0, high=1.0) for name in shares}},
            repeats=max([declared, *(row.repeat + 1 for row in numbered)]),
            # Only a declared number shows that a repeat is missing.
            has_uneven_repeats=is_numbered and not declared,
        )

    def _row(self, record: Record, metrics: Sequence[str]) -> Row:
        scores = dict(self._scores(record))
        error = self._error(record)
        values: dict[str, Value | None] = {
            name: value for name in metrics if isinstance(value := scores.get(name), bool | int | float)
        }
        lost = {name: scores.get(name) or MISSING for name in metrics if name not in values}
        answer = self._find(record, "reply")
        sample = self._find(record, "sample")
        return Row(
            sample=sample if isinstance(sample, str) else canonical(sample),
            repeat=int(self._find(record, "repeat") or 0),
            error=error,
            scores={} if error else values,
            lost={} if error else lost,
            reply=None if error and answer is None else self._reply(record, answer),
            input=self._find(record, "input"),
            expected=self._find(record, "expected"),
            prompt=self._find(record, "prompt"),
            parameters=generation_settings(self._find(record, "settings") or {}),
        )

    def _reply(self, record: Record, answer: Any) -> Reply:
        return Reply(
            text="" if answer is None else as_text(answer),
            input_tokens=self._count(record, "input_tokens"),
            output_tokens=self._count(record, "output_tokens"),
            latency_s=amount(self._find(record, "latency_s")),
            cost_usd=amount(self._find(record, "cost_usd")),
            finish=finish_of(self._find(record, "finish")),
        )

    def _count(self, record: Record, role: str) -> int | None:
        number = amount(self._find(record, role))
        return None if number is None else int(number)

    def _error(self, record: Record) -> str:
        """Return why the record is lost; empty for one that counts."""
        where = self.fields.get("lost_where")
        if where and (reason := find(record, where["path"])) in where["values"]:
            return str(reason)
        error = self._find(record, "error")
        return "" if error is None or error == "" else as_text(error).partition("\n")[0] or "error"

    def _scores(self, record: Record) -> Iterator[tuple[str, Any]]:
        """Yield metrics with their values: a number, or a text that says why it is lost; None for what is not a score."""
        for path in self.fields["scores"]:
            before, star, after = path.partition("*")
            if not star:
                yield path.rpartition(".")[2], _as_score(find(record, path))
                continue
            for name, part in _named_parts(find(record, before.removesuffix("."))):
                if isinstance(part, Mapping) and part.get(self.fields.get("failed")):
                    yield name, str(part.get(self.fields["why"]) or "the scorer failed").partition("\n")[0]
                else:
                    yield from _flat(name, find(part, after.removeprefix(".")) if after else part)

    def _find(self, record: Record, role: str) -> Any:
        paths = self.fields.get(role, ())
        return next((value for path in paths if (value := find(record, path)) is not None), None)

    def _text(self, record: Record, role: str) -> str:
        value = self._find(record, role)
        return "" if value is None else as_text(value)


@cache
def _formats() -> Mapping[str, Any]:
    text = files("pytest_crucible.importers").joinpath("record_formats.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def find(record: Any, path: str) -> Any:
    """Return the value at a path; None where there is none.

    >>> find({"traces": [{"id": 3}]}, "traces.-1.id"), find({"traces": []}, "traces.0.id"), find({"traces": [3]}, "traces.²")
    (3, None, None)
    """
    for key in path.split("."):
        if isinstance(record, Mapping):
            record = record.get(key)
        elif isinstance(record, list) and key.lstrip("-").isdecimal() and -len(record) <= int(key) < len(record):
            record = record[int(key)]
        else:
            return None
    return record


def _has(record: Record, path: str) -> bool:
    """Return whether a record has the last key of a path, with any value."""
    before, _, key = path.rpartition(".")
    within = find(record, before) if before else record
    return isinstance(within, Mapping) and key in within


def _named_parts(within: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a mapping, or the objects of a list by their field `name`."""
    if isinstance(within, Mapping):
        yield from ((str(name), part) for name, part in within.items())
    elif isinstance(within, list):
        yield from ((str(part["name"]), part) for part in within if isinstance(part, Mapping) and "name" in part)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a score, or each of the scores of a scorer with several, as `NAME.PART`."""
    if isinstance(value, Mapping):
        for part, inner in value.items():
            yield from _flat(f"{name}.{part}", inner)
    else:
        yield name, None if isinstance(value, str | list) else _as_score(value)


def _as_score(value: Any) -> Value | str:
    """Return a number; for a value that is not one, why."""
    parsed = cell_value(value) if value is None or isinstance(value, bool | int | float) else None
    return MISSING if parsed is None else parsed


def _counted_from_zero(rows: Sequence[Row]) -> list[Row]:
    first = min(row.repeat for row in rows)
    return [replace(row, repeat=row.repeat - first) for row in rows]
