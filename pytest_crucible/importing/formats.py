"""The formats that can be read, and which of them a file has."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_crucible.errors import SpecError
from pytest_crucible.importing import deepeval, inspect_ai, lm_eval, openai_evals, promptfoo, tables
from pytest_crucible.importing.pytest_bags import Bags
from pytest_crucible.importing.results import Imported, Reader, Results
from pytest_crucible.importing.source import Source, opened
from pytest_crucible.importing.spelling import spelled

READERS: Mapping[str, Reader] = {
    "inspect": inspect_ai,
    "lm-eval": lm_eval,
    "deepeval": deepeval,
    "promptfoo": promptfoo,
    "openai-evals": openai_evals,
    "pytest-evals": Bags(named=True),
    "pytest-harvest": Bags(named=False),
    "table": tables,
}
"""In this order they are asked whether a file is theirs; whatever has rows is a table."""
TABULAR = ("pytest-evals", "pytest-harvest", "table")
"""What has columns that can be named."""


def read(path: Path, harness: str = "", columns: Mapping[str, str] | None = None) -> Imported:
    """All that a file holds. `harness` says whose it is, where that is not to be seen; `columns` what its columns have.

    Raises SpecError.
    """
    source = opened(path)
    name = harness or _recognised(source)
    if name not in READERS:
        near = difflib.get_close_matches(name, READERS, n=1)
        hint = f"did you mean {near[0]!r}" if near else f"there are {', '.join(READERS)}"
        raise SpecError(f"no harness {name!r}: {hint}")
    if columns and name not in TABULAR:
        raise SpecError(f"{path} is what {name} writes, which says itself what is what: --column is for tables")
    try:
        found = READERS[name].read(source, columns or {})
        for one in found.results:
            _check_types(one)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise SpecError(
            f"{path} is not what {name} writes, or a version of it that is not known ({type(error).__name__}: {error})"
        ) from error
    _check(path, found.results)
    results = [spelled(one) for one in found.results if _scored(one)]
    return Imported(
        path=str(path),
        sha256=source.sha256,
        harness=name,
        version=found.version,
        results=[replace(one, identity=f"{source.sha256}:{one.task}:{one.arm}") for one in results],
        notes=found.notes,
    )


_NO_TEXT = frozenset(map(chr, (0, *range(0xD800, 0xE000))))
"""What no database keeps: NUL, and halves of surrogate pairs."""


def _recognised(source: Source) -> str:
    for name, reader in READERS.items():
        if reader.recognises(source):
            return name
    raise SpecError(
        f"{source.path} is of no format that is known: name the one that wrote it with --as ({', '.join(READERS)})"
    )


def _check_types(results: Results) -> None:
    """A file may say anything. Raises TypeError for what no harness means."""
    named = {results.task, results.arm, *(row.sample for row in results.rows)}
    named |= {metric for row in results.rows for metric in (*row.scores, *row.lost)}
    named |= {row.group for row in results.rows if row.group is not None}
    for name in named:
        if not (isinstance(name, str) and _NO_TEXT.isdisjoint(name)):
            raise TypeError(f"{name!r:.40} is no name")
    for row in results.rows:
        if not isinstance(row.epoch, int) or row.epoch < 0:
            raise TypeError(f"{row.epoch!r:.40} is no number of a repeat")
        for value in row.scores.values():
            if value is not None and not (isinstance(value, str) or math.isfinite(value)):
                raise TypeError(f"{value!r:.40} is no score")


def _check(path: Path, results: Sequence[Results]) -> None:
    """Something was scored, and nothing twice."""
    for arm in results:
        seen = Counter((row.sample, row.epoch) for row in arm.rows)
        twice = [sample for (sample, _), count in seen.items() if count > 1]
        if twice:
            raise SpecError(
                f"{path} has sample {twice[0]!r} of {arm.arm!r} twice in one repeat ({len(twice)} such): ids must be unique"
            )
    if not any(map(_scored, results)):
        raise SpecError(
            f"{path} has no scores of single samples, and nothing can be told of totals: log the samples too"
        )


def _scored(results: Results) -> bool:
    return any(row.scores or row.lost for row in results.rows)
