"""Tables, by the roles of their columns."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from pytest_crucible.importers.generation import as_messages, finish_of, setting_columns
from pytest_crucible.importers.large_files import ParquetRows
from pytest_crucible.importers.packed_rows import PackedRows
from pytest_crucible.importers.results import (
    ParsedFile,
    Results,
    Row,
    Source,
    as_text,
    cell_value,
    mostly_numbers,
)
from pytest_crucible.importers.sources import foreign_name
from pytest_crucible.records import MetricFacts, Reply, Value
from pytest_crucible.records.errors import SpecError, suggest

ARMS = ("arm", "model", "adapter", "variant", "provider", "model_name", "version", "system")
# Role -> usual column names. Only the user can name `metrics`, `metadata` and `arms`, which are lists. In a long table `lost`
# has the reason of an empty value.
USUAL: Mapping[str, tuple[str, ...]] = {
    "sample": (
        *("sample", "sample_id", "id", "example_id", "case_id", "case", "question_id", "doc_id", "test_id"),
        *("item_id", "task_id", "inputs", "input", "user_input", "question", "prompt"),
    ),
    "arm": ARMS,
    "metric": ("metric", "metric_name"),
    "value": ("value", "score", "metric_value"),
    "repeat": ("repeat", "epoch", "trial", "attempt", "repetition_number", "completion_id"),
    "task": ("task", "eval_name", "experiment", "suite", "benchmark"),
    "group": ("group", "cluster", "sample_group"),
    "input": ("input", "inputs", "user_input", "question", "prompt"),
    "expected": ("expected",),
    "reply": ("reply", "output", "outputs", "answer", "completion", "prediction", "response"),
    "prompt": ("prompt", "messages", "full_prompt", "rendered_prompt"),
    "finish": ("finish_reason", "stop_reason", "done_reason"),
    "answered_by": ("answered_by", "response_model"),
    "model": ("model", "model_name"),
    "error": ("error", "error_message", "reason"),
    "lost": ("lost",),
    "successes": ("successes", "n_successes", "num_successes", "success_count"),
    "trials": ("trials", "n_trials", "num_trials", "episodes", "n_episodes"),
    "metrics": (),
    "metadata": (),
    "arms": (),
    "settings": (),
}

# Roles that several columns may have: `--column metrics=A,B`.
LISTS = ("metrics", "metadata", "arms", "settings")
# The column of samples whose rows are samples of their own, numbered by their lines.
NUMBERED = "#"
_NAME = re.compile(r'(?:^|,)(?:"([^"]+)"(?=,|\Z)|([^,]*))')


def split_names(names: str) -> list[str]:
    """Return the columns of a list, in which a name with a comma stands in double quotes.

    >>> split_names('sex,"income, yearly"')
    ['sex', 'income, yearly']
    """
    return [quoted or plain for quoted, plain in _NAME.findall(names)]


def _quote_name(name: str) -> str:
    return f'"{name}"' if "," in name else name


def roles(has: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return role -> column, of the columns that the table has. Raises SpecError for an unknown role or a missing column."""
    for role, column in chosen.items():
        if role not in USUAL:
            raise SpecError(f"--column {role}={column}: the roles are {', '.join(USUAL)}")
        for column_name in split_names(column) if role in LISTS else (column,):
            if column_name not in has and (role, column_name) != ("sample", NUMBERED):
                hint = suggest(column_name, has, always=f"there are {', '.join(map(_quote_name, has))}")
                raise SpecError(f"no column named {column_name!r} has values: {hint}")
    # Reversed, so that of two columns that differ in case only the first wins.
    lower = {name.lower(): name for name in reversed(has)}
    usual = {
        role: next((lower[column_name] for column_name in names if column_name in lower), "")
        for role, names in USUAL.items()
    }
    # Its tasks are then parts of one experiment.
    if usual["task"] in split_names(chosen.get("metadata", "")):
        usual["task"] = ""
    measured = split_names(chosen.get("metrics", ""))
    usual["settings"] = ",".join(_quote_name(name) for name in setting_columns(has) if name not in measured)
    roles_found = {role: column for role, column in {**usual, **chosen}.items() if column}
    # A prompt that is the sample's input or its id is compared as that.
    if "prompt" not in chosen and roles_found.get("prompt") in (roles_found.get("input"), roles_found.get("sample")):
        roles_found.pop("prompt", None)
    # A column named score is then a metric with that name.
    if not {"metric", "value"} <= set(roles_found):
        roles_found.pop("value", None)
        roles_found.pop("lost", None)
    return _roles_of_counts(roles_found, chosen)


def _roles_of_counts(columns: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the roles of a table of counts, whose tasks are its samples, or those of a table that has no two counts."""
    if not {"successes", "trials"} <= set(columns) or "metrics" in chosen:
        return {role: column for role, column in columns.items() if role not in ("successes", "trials")}
    roles_of = {role: column for role, column in columns.items() if role not in ("metric", "value", "lost", "repeat")}
    if "sample" not in roles_of and "task" in roles_of:
        roles_of["sample"] = roles_of.pop("task")
    return roles_of


# What MLflow puts behind the name of a metric.
_SUFFIX = re.compile(r"(/v\d+)?/(score|value)$")
# Columns of a table that has one column for each arm.
_ARM, _SCORE = "arm", "score"
# The number of a completion in some tables, and an opaque id in others.
_OPAQUE = "completion_id"
# The metric of a table of counts.
SUCCESS = "success"
# Each arm of a table is read apart.
_MOST_PACKED = 8
_OF_REPLIES = ("reply", "finish", "answered_by")
# Each is a row in memory, of about half a kilobyte.
MOST_TRIALS = 500_000
# Task, arm, sample and repeat.
Unit = tuple[str, str, str, int]


def recognises_table(source: Source) -> bool:
    """Return whether the source is any table."""
    return source.rows is not None or bool(_rows(source))


def read_table(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return the arms of a table. Raises SpecError for a table without a column of sample ids or of scores."""
    if not columns and (sentence := foreign_name(source)):
        raise SpecError(sentence)
    rows = _rows(source)
    has = rows.names if isinstance(rows, ParquetRows) else list(dict.fromkeys(name for _, row in rows for name in row))
    role = roles(has, columns)
    if "arms" in role:
        rows, role = _by_arm(rows, role)
    # Only for the ambiguous column: text in any other column of repeats is an error of the file.
    if role.get("repeat") == _OPAQUE and not all(_is_whole_number(str(cell or "")) for cell in _cells(rows, _OPAQUE)):
        del role["repeat"]
    role = _with_inputs(rows, role, columns)
    if "sample" not in role:
        raise SpecError(
            f"{source.path} has no column of sample ids (it has {', '.join(has)}): name it with --column sample=NAME, or number "
            f"rows that are samples of their own with --column sample={NUMBERED}"
        )
    table = _Table(source, role)
    weights = table.weights(rows)
    if "trials" in role:
        return ParsedFile(version="", results=list(_arms(table.counts(rows), weights, uneven=True)))
    is_long = {"metric", "value"} <= set(role) and "metrics" not in role
    metrics = () if is_long else _metric_columns(rows, role, has)
    if not (is_long or metrics):
        raise SpecError(
            f"{source.path} has no column of numbers beside {', '.join(role.values())}: name the scores with --column metrics=A,B"
        )
    packed = table.packed(rows, metrics, weights) if isinstance(rows, ParquetRows) and not is_long else None
    units = {} if packed else table.long(rows) if is_long else table.wide(rows, metrics)
    guess = f"{source.path.name}: these columns are taken as metrics: {', '.join(metrics)}"
    return ParsedFile(
        version="",
        results=packed or list(_arms(units, weights)),
        notes=() if is_long or "metrics" in columns else (guess,),
    )


def _by_arm(
    rows: Sequence[tuple[int, Mapping[str, Any]]], role: Mapping[str, str]
) -> tuple[list[tuple[int, Mapping[str, Any]]], dict[str, str]]:
    """Return a table with a column of scores for each arm as one with a row for each arm, and its roles."""
    arms = split_names(role["arms"])
    split: list[tuple[int, Mapping[str, Any]]] = [
        (line, {**{name: value for name, value in row.items() if name not in arms}, _ARM: arm, _SCORE: row.get(arm)})
        for arm in arms
        for line, row in rows
    ]
    others = {name: column for name, column in role.items() if name not in ("arms", "metric", "value")}
    return split, {**others, "arm": _ARM, "metrics": _SCORE}


def _with_inputs(
    rows: Sequence[tuple[int, Mapping[str, Any]]], role: Mapping[str, str], chosen: Mapping[str, str]
) -> dict[str, str]:
    """Return the roles without a usual name of inputs or expected values that are the ids, or numbers, or differ in a sample."""
    names = ["task", "arm", "sample"]
    is_numbered = role.get("sample") == NUMBERED
    if isinstance(rows, ParquetRows):
        return _with_inputs_of_columns(
            rows, role, chosen, () if is_numbered else [role[name] for name in names if name in role]
        )
    units = [(line if is_numbered else 0, *(str(row.get(role.get(name, ""))) for name in names)) for line, row in rows]
    remaining = dict(role)
    for name in {"input", "expected"} & role.keys() - chosen.keys():
        values = [row.get(role[name]) for _, row in rows]
        of_units = dict(zip(units, values, strict=True))
        differs = any(of_units[unit] != value for unit, value in zip(units, values, strict=True))
        if differs or mostly_numbers(values) or list(role.values()).count(role[name]) > 1:
            del remaining[name]
    return remaining


def _with_inputs_of_columns(
    rows: ParquetRows, role: Mapping[str, str], chosen: Mapping[str, str], of_units: Sequence[str]
) -> dict[str, str]:
    """Return the same for many rows, by hashes. Without `of_units`, columns of their units, each row is one."""
    units = array("q", (hash(tuple(map(str, cells))) for cells in zip(*map(rows.cells, of_units), strict=True)))
    remaining = dict(role)
    for name in {"input", "expected"} & role.keys() - chosen.keys():
        differs = _differ(units, (hash(as_text(cell)) for cell in rows.cells(role[name])))
        if differs or mostly_numbers(rows.cells(role[name])) or list(role.values()).count(role[name]) > 1:
            del remaining[name]
    return remaining


def _differ(units: Sequence[int], values: Iterable[int]) -> bool:
    """Return whether two rows of one unit have different values, by hashes of both."""
    # Loaded for many rows: a mapping of a million units takes ten times the memory of sorting them.
    import numpy as np

    of_units = np.array(units, dtype=np.int64)
    if len(np.unique(of_units)) == len(of_units):
        return False
    order = np.argsort(of_units, kind="stable")
    of_values = np.fromiter(values, dtype=np.int64, count=len(of_units))[order]
    is_same = of_units[order][1:] == of_units[order][:-1]
    return bool((is_same & (of_values[1:] != of_values[:-1])).any())


def _is_whole_number(cell: str) -> bool:
    return not cell or re.fullmatch(r"\d+(\.0)?", cell) is not None


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

    def packed(
        self, rows: ParquetRows, metrics: Sequence[str], weights: Mapping[tuple[str, str], Mapping[str, str]]
    ) -> list[Results]:
        """Return the arms of a wide table of many rows; none for a table that has a unit twice, or very many arms."""
        arms = [self._arm(line, row) for line, row in rows.distinct(self._columns("task", "arm"))]
        if len(arms) > _MOST_PACKED:
            return []
        first = min((self._repeat(line, row) for line, row in rows.distinct(self._columns("repeat"))), default=0)

        named = [(name, _SUFFIX.sub("", name)) for name in metrics]

        def read(of_arm: tuple[str, str], *, with_replies: bool) -> Iterator[Row]:
            left_out = self._columns(*(() if with_replies else _OF_REPLIES))
            needed = [name for name in rows.names if name not in left_out or name in metrics]
            for line, row in rows.with_columns(needed):
                task, arm, sample, repeat = self._unit(line, row)
                if (task, arm) == of_arm:
                    yield self._row(
                        (task, arm, sample, repeat - first), row, {short: row[name] for name, short in named}
                    )

        results = []
        for task, arm in dict.fromkeys(arms):
            packed = PackedRows(lambda with_replies, of_arm=(task, arm): read(of_arm, with_replies=with_replies))
            if packed.columns.has_repeated_units():
                return []
            results.append(_arm_results(task, arm, packed, max(packed.columns.repeats) + 1, weights))
        return results

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
        if all(cell and _is_whole_number(cell) for cell in cells):
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
        if not _is_whole_number(again):
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
            metadata={
                name: row[name]
                for name in split_names(self.role.get("metadata", ""))
                if name and row.get(name) is not None
            },
        )

    def _reply(self, row: Mapping[str, Any]) -> Reply:
        finish = finish_of(self._cell(row, "finish"))
        return Reply(text=self._cell(row, "reply"), finish=finish, model=self._cell(row, "answered_by"))

    def _settings(self, row: Mapping[str, Any]) -> dict[str, Any]:
        cells = {name: cell_value(row.get(name)) for name in split_names(self.role.get("settings", "")) if name}
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


def _metric_columns(
    rows: Sequence[tuple[int, Mapping[str, Any]]], role: Mapping[str, str], has: Sequence[str]
) -> list[str]:
    """Return the columns of metrics: those that the user names, or else all other columns that are mostly numbers."""
    if "metrics" in role:
        return split_names(role["metrics"])
    with_role = {name for columns in role.values() for name in split_names(columns)} | set(role.values())
    others = (name for name in has if name not in with_role)
    return [name for name in others if mostly_numbers(_cells(rows, name))]


def _cells(rows: Sequence[tuple[int, Mapping[str, Any]]], name: str) -> Iterable[Any]:
    return rows.cells(name) if isinstance(rows, ParquetRows) else (row.get(name) for _, row in rows)


def _arms(
    units: Mapping[Unit, Row], weights: Mapping[tuple[str, str], Mapping[str, str]], *, uneven: bool = False
) -> Iterator[Results]:
    """Yield arms. Repeats are counted from the table's first, which may be 0 or 1."""
    first = min(unit[3] for unit in units)
    arms: dict[tuple[str, str], list[Row]] = {}
    for (task, arm, _, _), row in units.items():
        arms.setdefault((task, arm), []).append(replace(row, repeat=row.repeat - first))
    for (task, arm), rows in arms.items():
        repeats = max(row.repeat for row in rows) + 1
        yield _arm_results(task, arm, rows, repeats, weights, uneven=uneven)


def _arm_results(
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


def _rows(source: Source) -> Sequence[tuple[int, Mapping[str, Any]]]:
    document = _table_rows(source.document) if isinstance(source.document, dict) else source.document
    if source.rows is not None:
        return source.rows
    is_list = isinstance(document, list) and all(isinstance(row, dict) for row in document)
    return list(enumerate(document, start=1)) if is_list else []


def _table_rows(document: Mapping[str, Any]) -> Any:
    """Return the rows of a table as W&B, MLflow and `to_json` of pandas write it; None for another document.

    That is names and rows, or a mapping of rows by number for each column.
    """
    names, data = (document.get(part) for part in ("columns", "data"))
    if isinstance(names, list) and isinstance(data, list):
        lists = all(isinstance(row, list) for row in data) and all(isinstance(name, str) for name in names)
        return [dict(zip(names, row, strict=False)) for row in data] if lists else None
    if "schema" in document and isinstance(data, list):
        return [{name: cell for name, cell in row.items() if name != "index"} for row in data]
    columns = list(document.values())
    numbers = list(columns[0]) if columns and isinstance(columns[0], dict) else []
    is_frame = bool(numbers) and all(isinstance(column, dict) and list(column) == numbers for column in columns)
    # An index of other labels is no table of rows: it may be any document of equal objects.
    if not (is_frame and all(number.isdigit() for number in numbers)):
        return None
    return [{name: column[number] for name, column in document.items()} for number in numbers]
