"""The formats that can be imported, and detection of a file's format."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_crucible.importers import (
    braintrust,
    deepeval,
    evalplus,
    garak,
    helm,
    inspect_ai,
    langsmith,
    lm_eval,
    mlflow_genai,
    openai_evals,
    opencompass,
    phoenix,
    promptfoo,
    pydantic_evals,
    ragas,
    tables,
)
from pytest_crucible.importers.groups import with_groups
from pytest_crucible.importers.lost_text import with_text_lost
from pytest_crucible.importers.metric_names import with_our_names
from pytest_crucible.importers.pytest_bags import PytestBags
from pytest_crucible.importers.results import ImportedFile, NoSampleScoresError, ParsedFile, Reader, Results
from pytest_crucible.importers.source import Source, open_source
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest
from pytest_crucible.stats.number_format import quantity

# Tried in this order: any file with rows is a table, so that tables come last.
READERS: Mapping[str, Reader] = {
    "inspect": inspect_ai,
    "lm-eval": lm_eval,
    "deepeval": deepeval,
    "promptfoo": promptfoo,
    "openai-evals": openai_evals,
    "pydantic-evals": pydantic_evals,
    "mlflow": mlflow_genai,
    "helm": helm,
    "ragas": ragas,
    "evalplus": evalplus,
    "langsmith": langsmith,
    "phoenix": phoenix,
    "braintrust": braintrust,
    "opencompass": opencompass,
    "garak": garak,
    "pytest-evals": PytestBags(named=True),
    "pytest-harvest": PytestBags(named=False),
    "table": tables,
}
# Formats whose columns the user can name.
TABULAR = ("pytest-evals", "pytest-harvest", "table")


def read(
    path: Path,
    harness: str = "",
    columns: Mapping[str, str] | None = None,
    *,
    group: str = "",
    readers: Mapping[str, Reader] = READERS,
) -> ImportedFile:
    """Return everything in a file. `harness` names its format, instead of detection; `columns` has role -> column.

    `group` is a key of the samples' metadata, or a column: samples with one value of it are a group. Raises SpecError.
    """
    if not harness and path.is_file():
        promptfoo.refuse_other_outputs(path)
    source = open_source(path)
    name = harness or detect_harness(source, readers)
    _check_harness(path, name, columns, readers)
    parsed = _parse(source, name, {**(columns or {}), **({"group": group} if group else {})}, readers)
    grouped = with_groups(parsed.results, group) if group and name != "table" else parsed.results
    _check(path, grouped)
    numeric = with_text_lost(grouped)
    results = [with_our_names(arm_results) for arm_results in numeric if _has_scores(arm_results)]
    return ImportedFile(
        path=str(path),
        sha256=source.sha256,
        harness=name,
        version=parsed.version,
        results=[
            replace(arm_results, identity=f"{source.sha256}:{arm_results.task}:{arm_results.arm}")
            for arm_results in results
        ],
        notes=parsed.notes,
    )


def _check_harness(path: Path, name: str, columns: Mapping[str, str] | None, readers: Mapping[str, Reader]) -> None:
    if name not in readers:
        hint = suggest(name, readers, otherwise=f"there are {', '.join(readers)}")
        raise SpecError(f"harness {name!r} is not known: {hint}")
    if columns and name in READERS and name not in TABULAR:
        raise SpecError(f"{path}: --column applies to tables; {name} files name their own fields")


def _parse(source: Source, name: str, columns: Mapping[str, str], readers: Mapping[str, Reader]) -> ParsedFile:
    """Return the content of a file of this format. Raises SpecError for another format or version."""
    try:
        parsed = readers[name].read(source, columns)
        for arm_results in parsed.results:
            _check_types(arm_results)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
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


def detect_harness(source: Source, readers: Mapping[str, Reader]) -> str:
    """Return the name of the first reader that recognises the content. Raises SpecError."""
    if name := find_harness(source, readers):
        return name
    raise SpecError(
        f"the format of {source.path} was not recognised: name the harness that wrote it with --as ({', '.join(readers)})"
    )


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
    named = {results.task, results.arm, *(row.sample for row in results.rows)}
    named |= {metric for row in results.rows for metric in (*row.scores, *row.lost)}
    named |= {row.group for row in results.rows if row.group is not None}
    for name in named:
        if not (isinstance(name, str) and _NO_TEXT.isdisjoint(name)):
            raise TypeError(f"{name!r:.40} is not a name")
    for row in results.rows:
        if not isinstance(row.metadata, Mapping):
            raise TypeError(f"{row.metadata!r:.40} is not the metadata of a sample")
        if not isinstance(row.repeat, int) or row.repeat < 0:
            raise TypeError(f"{row.repeat!r:.40} is not the number of a repeat")
        for value in row.scores.values():
            if value is not None and not (isinstance(value, str) or math.isfinite(value)):
                raise TypeError(f"{value!r:.40} is not a score")


def _check(path: Path, results: Sequence[Results]) -> None:
    """Raise SpecError for a file without scores, with two rows of one sample in one repeat, or with incomplete groups."""
    for arm in results:
        counts = Counter((row.sample, row.repeat) for row in arm.rows)
        twice = [sample for (sample, _), count in counts.items() if count > 1]
        if twice:
            raise SpecError(
                f"{path} has sample {twice[0]!r} of {arm.arm!r} twice in one repeat "
                f"({quantity(len(twice), 'sample')} repeated): ids must be unique"
            )
        _check_groups(path, arm)
    if not any(map(_has_scores, results)):
        raise NoSampleScoresError(
            f"{path} has only aggregate scores; scores of single samples are needed: log the samples too"
        )


def _check_groups(path: Path, arm: Results) -> None:
    """Raise SpecError for a group that only some samples have: without it, the others' groups could not be used."""
    without = [row.sample for row in arm.rows if not row.group]
    if without and len(without) < len(arm.rows):
        raise SpecError(
            f"{path} has no group for sample {without[0]!r} of {arm.arm!r} ({quantity(len(without), 'row')} of "
            f"{len(arm.rows):,}), but others have one: give it to all samples or to none"
        )


def _has_scores(results: Results) -> bool:
    return any(row.scores or row.lost for row in results.rows)
