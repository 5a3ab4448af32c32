"""Directories of results: the log directory of Inspect, the output of lm-evaluation-harness, a folder of tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_crucible.importers.formats import READERS, find_harness, read
from pytest_crucible.importers.results import ImportedFile, NoSampleScoresError, Reader
from pytest_crucible.importers.source import open_source
from pytest_crucible.records.errors import SpecError

_ENDINGS = (".eval", ".json", ".jsonl", ".csv", ".tsv", ".parquet")
_SAMPLES = re.compile(r"samples_.+_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")


def read_results(
    path: Path,
    harness: str = "",
    columns: Mapping[str, str] | None = None,
    *,
    group: str = "",
    readers: Mapping[str, Reader] = READERS,
) -> list[ImportedFile]:
    """Return the results of a file, or of all files of a directory. See `read` for the other arguments.

    Raises SpecError.
    """
    if not path.is_dir():
        return [read(path, harness, columns, group=group, readers=readers)]
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
    shown = [file for file in files if not any(part.startswith(".") for part in file.relative_to(folder).parts)]
    return [file for file in shown if not _is_read_with_its_results(file)]


def _is_read_with_its_results(file: Path) -> bool:
    match = _SAMPLES.fullmatch(file.name)
    return match is not None and file.with_name(f"results_{match['date']}.json").is_file()


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
