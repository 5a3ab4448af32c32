"""Reads files and directories of results: the formats that can be imported, and detection of a file's format."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_crucible.importers import (
    agent_benchmarks,
    benchmark_runs,
    every_eval_ever,
    inspect_logs,
    lm_eval_samples,
    platforms,
    reports,
    suites,
    tables,
)
from pytest_crucible.importers.metric_facts import with_our_names
from pytest_crucible.importers.packed_rows import PackedRows, RowColumns, are_finite, map_rows
from pytest_crucible.importers.pytest_bags import PytestBags
from pytest_crucible.importers.record_readers import RECORD_READERS
from pytest_crucible.importers.results import (
    FormatReader,
    ImportedFile,
    NoSampleScoresError,
    ParsedFile,
    Reader,
    Results,
    Row,
    Source,
    mostly_numbers,
    not_a_number,
)
from pytest_crucible.importers.sources import QUERY, foreign_name, open_query, open_source
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.stats.number_format import quantity

# Tried in this order: any file with rows is a table, so that tables come last.
READERS: Mapping[str, Reader] = {
    "inspect": FormatReader(inspect_logs.recognises_inspect, inspect_logs.read_inspect),
    "lm-eval": FormatReader(lm_eval_samples.recognises_lm_eval, lm_eval_samples.read_lm_eval),
    "deepeval": FormatReader(reports.recognises_deepeval, reports.read_deepeval),
    "promptfoo": FormatReader(suites.recognises_promptfoo, suites.read_promptfoo),
    "openai-evals": FormatReader(reports.recognises_openai, reports.read_openai),
    "pydantic-evals": FormatReader(suites.recognises_pydantic, suites.read_pydantic),
    "mlflow": FormatReader(platforms.recognises_mlflow, platforms.read_mlflow),
    "helm": FormatReader(benchmark_runs.recognises_helm, benchmark_runs.read_helm),
    "ragas": FormatReader(reports.recognises_ragas, reports.read_ragas),
    "evalplus": FormatReader(benchmark_runs.recognises_evalplus, benchmark_runs.read_evalplus),
    "langsmith": FormatReader(platforms.recognises_langsmith, platforms.read_langsmith),
    "phoenix": FormatReader(platforms.recognises_phoenix, platforms.read_phoenix),
    "braintrust": FormatReader(platforms.recognises_braintrust, platforms.read_braintrust),
    "opencompass": FormatReader(benchmark_runs.recognises_opencompass, benchmark_runs.read_opencompass),
    "garak": FormatReader(reports.recognises_garak, reports.read_garak),
    "every-eval-ever": FormatReader(every_eval_ever.recognises_every_eval_ever, every_eval_ever.read_every_eval_ever),
    "swe-bench": FormatReader(agent_benchmarks.recognises_swe_bench, agent_benchmarks.read_swe_bench),
    "bfcl": FormatReader(agent_benchmarks.recognises_bfcl, agent_benchmarks.read_bfcl),
    **RECORD_READERS,
    "pytest-evals": PytestBags(named=True),
    "pytest-harvest": PytestBags(named=False),
    "table": FormatReader(tables.recognises_table, tables.read_table),
}
# Formats whose columns the user can name.
TABULAR = ("pytest-evals", "pytest-harvest", "table")


def read(
    path: Path | str,
    harness: str = "",
    columns: Mapping[str, str] | None = None,
    *,
    group: str = "",
    readers: Mapping[str, Reader] = READERS,
) -> ImportedFile:
    """Return everything in a file, or in the answer to a query. `harness` names its format, instead of detection.

    `columns` has role -> column. `group` is a key of the samples' metadata, or a column: samples with one value of it are a group.
    Raises SpecError.
    """
    if str(path).startswith(QUERY):
        file = read_source(open_query(str(path)), harness, columns, group=group, readers=readers)
        return replace(file, notes=[f"{file.path} is {path}", *file.notes])
    if not harness and Path(path).is_file():
        suites.refuse_other_outputs(Path(path))
    return read_source(open_source(Path(path)), harness, columns, group=group, readers=readers)


def read_source(
    source: Source,
    harness: str = "",
    columns: Mapping[str, str] | None = None,
    *,
    group: str = "",
    readers: Mapping[str, Reader] = READERS,
) -> ImportedFile:
    """Return everything in a source; arguments as of `read`. Raises SpecError."""
    name = harness or find_harness(source, readers)
    path = source.path
    if not name:
        raise SpecError(
            foreign_name(source)
            or f"the format of {path} was not recognised: give a file of {', '.join(name for name in readers if name != 'table')}, "
            "or a table with a row for each sample, its id and its scores (CSV, JSON, JSON lines or Parquet)"
        )
    if name not in readers:
        hint = suggest(name, readers, otherwise=f"there are {', '.join(readers)}")
        raise SpecError(f"harness {name!r} is not known: {hint}")
    if columns and name in READERS and name not in TABULAR:
        raise SpecError(f"{path}: --column applies to tables; {name} files name their own fields")
    parsed = _parse(source, name, {**(columns or {}), **({"group": group} if group else {})}, readers)
    grouped = with_groups(parsed.results, group) if group and name != "table" else parsed.results
    _check(path, grouped)
    results = [
        replace(with_our_names(arm), identity=f"{source.sha256}:{arm.task}:{arm.arm}")
        for arm in with_text_lost(grouped)
        if _has_scores(arm)
    ]
    return ImportedFile(
        path=str(path), sha256=source.sha256, harness=name, version=parsed.version, results=results, notes=parsed.notes
    )


def _parse(source: Source, name: str, columns: Mapping[str, str], readers: Mapping[str, Reader]) -> ParsedFile:
    """Return the content of a file of this format. Raises SpecError for another format or version."""
    try:
        parsed = readers[name].read(source, columns)
        for arm_results in parsed.results:
            _check_types(arm_results)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, IndexError) as error:
        # A reader takes the structure of its format for granted: another version fails in any of these ways.
        raise SpecError(
            f"{source.path} is not a file of {name}, or of an unknown version of it ({type(error).__name__}: {error})"
        ) from error
    return parsed


# Characters that databases refuse: NUL, and halves of surrogate pairs.
_NO_TEXT = frozenset(map(chr, (0, *range(0xD800, 0xE000))))


def find_harness(source: Source, readers: Mapping[str, Reader]) -> str:
    """Return the name of the first reader that recognises the content; empty for none. Raises SpecError for a broken one."""
    return next((name for name, reader in readers.items() if _recognises(name, reader, source)), "")


def _recognises(name: str, reader: Reader, source: Source) -> bool:
    """Return whether one reader recognises the source. An error is reported: without it, another reader might take the file."""
    try:
        return reader.recognises(source)
    except SpecError:
        raise
    except Exception as error:
        raise SpecError(
            f"the reader of {name!r} failed to look at {source.path} ({type(error).__name__}: {error}): it must return True or "
            "False for any content; correct it, or name the harness that wrote the file with --as"
        ) from error


def _check_types(results: Results) -> None:
    """Raise TypeError for a name, a repeat or a score of the wrong type: a file may contain anything."""
    columns = RowColumns.of(results.rows)
    groups = (group for group in columns.groups if group is not None)
    is_plain = {str}.issuperset(map(type, columns.samples)) and all(map(str.isalnum, columns.samples))
    for name in chain((results.task, results.arm), () if is_plain else columns.samples, columns.metrics, groups):
        if not (isinstance(name, str) and _NO_TEXT.isdisjoint(name)):
            raise TypeError(f"{name!r:.40} is not a name")
    # The readers that pack rows make the metadata themselves.
    for row in () if isinstance(results.rows, PackedRows) else results.rows:
        if not isinstance(row.metadata, Mapping):
            raise TypeError(f"{row.metadata!r:.40} is not the metadata of a sample")
    for repeat in {*columns.repeats}:
        if not isinstance(repeat, int) or repeat < 0:
            raise TypeError(f"{repeat!r:.40} is not the number of a repeat")
    others = (name for name, scores in columns.scores.items() if not are_finite(scores))
    for value in (value for name in others for value in columns.values(name)):
        if value is not None and not (isinstance(value, str) or math.isfinite(value)):
            raise TypeError(f"{value!r:.40} is not a score")


def _check(path: Path, results: Sequence[Results]) -> None:
    """Raise SpecError for a file without scores, with two rows of one sample in one repeat, or with incomplete groups."""
    for arm in results:
        columns = RowColumns.of(arm.rows)
        twice = _repeated_samples(columns)
        if twice:
            raise SpecError(
                f"{path} has sample {twice[0]!r} of {arm.arm!r} twice in one repeat "
                f"({quantity(len(twice), 'sample')} repeated): ids must be unique"
            )
        _check_groups(path, arm.arm, columns)
    if not any(map(_has_scores, results)):
        raise NoSampleScoresError(
            f"{path} has only aggregate scores; scores of single samples are needed: log the samples too"
        )


def _repeated_samples(columns: RowColumns) -> list[str]:
    """Return the sample of each unit that has several rows."""
    if not columns.has_repeated_units():
        return []
    counts = Counter(zip(columns.samples, columns.repeats, strict=True))
    return [sample for (sample, _), count in counts.items() if count > 1]


def _check_groups(path: Path, arm: str, columns: RowColumns) -> None:
    """Raise SpecError for a group that only some samples have: without it, the others' groups could not be used."""
    without = columns.groups.count(None) + columns.groups.count("")
    if 0 < without < len(columns.groups):
        first = next(sample for sample, group in zip(columns.samples, columns.groups, strict=True) if not group)
        raise SpecError(
            f"{path} has no group for sample {first!r} of {arm!r} ({quantity(without, 'row')} of "
            f"{len(columns.groups):,}), but others have one: give it to all samples or to none"
        )


def _has_scores(results: Results) -> bool:
    columns = RowColumns.of(results.rows)
    return bool(columns.scores or columns.lost)


def with_text_lost(results: Sequence[Results]) -> list[Results]:
    """Return the results of a file; of its metrics that are mostly numbers, text is a lost value."""
    columns = [RowColumns.of(arm.rows) for arm in results]
    names = dict.fromkeys(name for of_arm in columns for name in of_arm.scores)
    with_text = [name for name in names if any(str in map(type, of_arm.values(name)) for of_arm in columns)]
    numeric = {
        name for name in with_text if mostly_numbers(value for of_arm in columns for value in of_arm.values(name))
    }
    if not numeric:
        return [*results]
    return [replace(arm, rows=map_rows(arm.rows, lambda row: _without_text(row, numeric))) for arm in results]


def _without_text(row: Row, numeric: Set[str]) -> Row:
    texts = {name: value for name, value in row.scores.items() if name in numeric and isinstance(value, str)}
    if not texts:
        return row
    scores = {name: value for name, value in row.scores.items() if name not in texts}
    return replace(row, scores=scores, lost={**row.lost, **{name: not_a_number(text) for name, text in texts.items()}})


def with_groups(results: Sequence[Results], key: str) -> list[Results]:
    """Return the results with the value of `key` as each sample's group: of its metadata, or else of its input.

    Raises SpecError for a key that no sample has.
    """
    rows = [row for arm in results for row in arm.rows]
    if not any(key in attributes(row) for row in rows):
        keys = list(dict.fromkeys(name for row in rows for name in attributes(row)))
        hint = suggest(key, keys, always=f"there are {', '.join(keys) or 'no keys'}")
        raise SpecError(f"--group {key}: no sample has this key: {hint}")
    return [replace(arm, rows=[replace(row, group=group_of(row, key)) for row in arm.rows]) for arm in results]


def group_of(row: Row, key: str) -> str | None:
    """Return a sample's value of a key as the name of its group; None for a sample without one."""
    value = attributes(row).get(key)
    return None if value is None or value == "" else str(value)


def attributes(row: Row) -> Mapping[str, Any]:
    """Return a sample's metadata, with the fields of its input if it has fields."""
    fields = row.input if isinstance(row.input, Mapping) else {}
    return {str(name): value for name, value in {**fields, **row.metadata}.items()}


_ENDINGS = (".eval", ".json", ".jsonl", ".csv", ".tsv", ".parquet")
_SAMPLES = re.compile(r"samples_.+_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")


def read_results(
    path: Path | str,
    harness: str = "",
    columns: Mapping[str, str] | None = None,
    *,
    group: str = "",
    readers: Mapping[str, Reader] = READERS,
) -> list[ImportedFile]:
    """Return the results of a file, a query, or all files of a directory; arguments as of `read`. Raises SpecError."""
    if str(path).startswith(QUERY) or not Path(path).is_dir():
        return [read(path, harness, columns, group=group, readers=readers)]
    path = Path(path)
    named = [(file, harness) for file in _files(path)] if harness else _recognise_files(_files(path), readers)
    if not named:
        raise SpecError(f"{path} has no file with results: give a directory of logs or of tables")
    files, refusals = [], []
    for file, name in named:
        try:
            files.append(read(file, name, columns, group=group, readers=readers))
        except NoSampleScoresError as refusal:
            refusals.append(refusal)
    if not files:
        raise refusals[0]
    _check_unique(path, files)
    files[0] = replace(files[0], notes=[*files[0].notes, *map(str, refusals)])
    return [replace(file, folder=str(path)) for file in files]


def _files(folder: Path) -> list[Path]:
    """Return the files that may have results, without hidden ones and samples that a results file next to them reads."""
    files = [file for file in sorted(folder.rglob("*")) if file.suffix.lower() in _ENDINGS and file.is_file()]
    visible = [file for file in files if not any(part.startswith(".") for part in file.relative_to(folder).parts)]
    dates = ((file, _SAMPLES.fullmatch(file.name)) for file in visible)
    return [file for file, match in dates if not (match and file.with_name(f"results_{match['date']}.json").is_file())]


def _recognise_files(files: Sequence[Path], readers: Mapping[str, Reader]) -> list[tuple[Path, str]]:
    """Return the files with their harness, without those that are not results, such as a configuration.

    Beside the logs of a harness, a list of anything is not a table of results.
    """
    named = [(file, name) for file in files if (name := find_harness(open_source(file), readers))]
    logs = [(file, name) for file, name in named if name != "table"]
    return logs or named


def _check_unique(folder: Path, files: Sequence[ImportedFile]) -> None:
    """Raise SpecError for two results of one arm on one task: only the user knows which of these runs counts."""
    first: dict[tuple[str, str], str] = {}
    for file in files:
        for results in file.results:
            earlier = first.setdefault((results.task, results.arm), file.path)
            if earlier != file.path:
                raise SpecError(
                    f"{folder} has two results of {results.arm!r} on {results.task!r}: name one of the files, "
                    f"{earlier} or {file.path}"
                )
