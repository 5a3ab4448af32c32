"""Tables, by the roles of their columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.importers.generation import setting_columns
from pytest_crucible.importers.large_files import ParquetRows, differ_in_unit
from pytest_crucible.importers.results import (
    ParsedFile,
    Results,
    Row,
    Source,
    as_text,
    mostly_numbers,
)
from pytest_crucible.importers.sources import foreign_name
from pytest_crucible.importers.table_rows import NUMBERED, TableRows, Unit, arm_results, is_whole_number, split_names
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


# Columns of a table that has one column for each arm.
_ARM, _SCORE = "arm", "score"
# Numbers that name a row and measure nothing: by the last word, and by the whole name, because a Gini index is a score.
_ROW_WORDS, _ROW_NAMES = ("id", "idx"), ("index", "row_index", "sample_index")
# The number of a completion in some tables, and an opaque id in others.
_OPAQUE = "completion_id"


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
    if role.get("repeat") == _OPAQUE and not all(is_whole_number(str(cell or "")) for cell in _cells(rows, _OPAQUE)):
        del role["repeat"]
    role = _with_inputs(rows, role, columns)
    if "sample" not in role:
        raise SpecError(
            f"{source.path} has no column of sample ids (it has {', '.join(has)}): name it with --column sample=NAME, or number "
            f"rows that are samples of their own with --column sample={NUMBERED}"
        )
    table = TableRows(source, role)
    weights = table.weights(rows)
    if "trials" in role:
        return ParsedFile(version="", results=list(_arms(table.counts(rows), weights, uneven=True)))
    is_long = {"metric", "value"} <= set(role) and "metrics" not in role
    metrics = () if is_long else _metric_columns(rows, role, has)
    if not (is_long or metrics):
        raise SpecError(
            f"{source.path} has no column of numbers beside {', '.join(role.values())}: name the scores with --column metrics=A,B"
        )
    arms = table.pack_arms(rows, metrics, weights) if isinstance(rows, ParquetRows) and not is_long else None
    units = {} if arms else table.long(rows) if is_long else table.wide(rows, metrics)
    guess = f"{source.path.name}: these columns are taken as metrics: {', '.join(metrics)}"
    results = arms or list(_arms(units, weights))
    notes = [] if is_long or "metrics" in columns else [guess]
    samples = {(task, sample) for task, _, sample, _ in units}
    # Over all tasks, an id that two of them have would be one sample.
    is_one = len({sample for _, sample in samples}) == len(samples)
    if metrics and is_one and "metadata" not in columns and len({task for task, _ in samples}) > 1:
        notes.extend(_overall_hint(source.path.name, role["task"], metrics[0]))
    return ParsedFile(version="", results=results, notes=tuple(notes))


def _overall_hint(file: str, column: str, metric: str) -> Iterator[str]:
    # Other names would need quotes inside the quotes of a shell.
    if column.isidentifier() and metric.isidentifier():
        yield (
            f"{file}: each {column} is a test of its own; compare over all of them with --column metadata={column} "
            f"--metric 'overall({metric} by {column}, macro)'"
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
    units = array("q", map(hash, zip(*(map(str, rows.cells(name)) for name in of_units), strict=True)))
    remaining = dict(role)
    for name in {"input", "expected"} & role.keys() - chosen.keys():
        differs = differ_in_unit(units, (hash(as_text(cell)) for cell in rows.cells(role[name])))
        if differs or mostly_numbers(rows.cells(role[name])) or list(role.values()).count(role[name]) > 1:
            del remaining[name]
    return remaining


def _metric_columns(
    rows: Sequence[tuple[int, Mapping[str, Any]]], role: Mapping[str, str], has: Sequence[str]
) -> list[str]:
    """Return the columns of metrics: those that the user names, or else all others that are mostly numbers, without ids."""
    if "metrics" in role:
        return split_names(role["metrics"])
    with_role = {name for columns in role.values() for name in split_names(columns)} | set(role.values())
    others = (name for name in has if name not in with_role and not _names_a_row(name.lower()))
    return [name for name in others if mostly_numbers(_cells(rows, name))]


def _names_a_row(column: str) -> bool:
    return column in _ROW_NAMES or column.rpartition("_")[2] in _ROW_WORDS


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
        yield arm_results(task, arm, rows, repeats, weights, uneven=uneven)


def _rows(source: Source) -> Sequence[tuple[int, Mapping[str, Any]]]:
    document = _table_rows(source.document) if isinstance(source.document, dict) else source.document
    if source.rows is not None:
        return source.rows
    is_list = isinstance(document, list) and all(isinstance(row, dict) for row in document)
    return list(enumerate(document, start=1)) if is_list else []


_NAMES_OF_ROWS = ("rows", "results", "records", "samples", "examples", "items", "instances", "trials", "predictions")


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _table_rows(document: Mapping[str, Any]) -> Any:
    """Return the rows of a table as W&B, MLflow and `to_json` of pandas write it; None for another document.

    That is names and rows, or a mapping of rows by number for each column. Other programs write a list of rows under a usual
    name, such as `results`, beside facts of the run; where there are two such lists, neither is taken.
    """
    lists_of_rows = [document[name] for name in _NAMES_OF_ROWS if _are_rows(document.get(name))]
    if len(lists_of_rows) == 1:
        return lists_of_rows[0]
    names, data = (document.get(part) for part in ("columns", "data"))
    if isinstance(names, list) and isinstance(data, list):
        lists = all(isinstance(row, list) for row in data) and all(isinstance(name, str) for name in names)
        return [dict(zip(names, row, strict=False)) for row in data] if lists else None
    if "schema" in document and isinstance(data, list):
        return [{name: cell for name, cell in row.items() if name != "index"} for row in data]
    columns = list(document.values())
    numbers = list(columns[0]) if columns and isinstance(columns[0], dict) else []
    is_frame = bool(numbers) and all(isinstance(column, dict) and list(column) == numbers for column in columns)
    # With an index of other labels it may be any document of equal objects.
    if not (is_frame and all(number.isdigit() for number in numbers)):
        return None
    return [{name: column[number] for name, column in document.items()} for number in numbers]
