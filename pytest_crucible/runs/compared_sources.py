"""Results of other harnesses, in files, queries and data frames, compared without a run store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.importers.formats import read_results, read_source
from pytest_crucible.importers.metric_facts import Declared
from pytest_crucible.importers.results import ImportedFile
from pytest_crucible.importers.sources import open_frame
from pytest_crucible.records import Run
from pytest_crucible.records.settings import DEFAULT_ALPHA
from pytest_crucible.runs.imported import ImportedRun, ImportOptions
from pytest_crucible.runs.named_arms import read_claims
from pytest_crucible.runs.plugins import importers


def compare_results(
    candidate: Any,
    baseline: Any = None,
    *,
    metrics: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    group: str = "",
    margin: float | str | None = None,
    alternative: str | None = None,
    relevant: float | str | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    unpaired: bool = False,
    alpha: float = DEFAULT_ALPHA,
) -> Run:
    """Return the comparison of two data frames of pandas or polars, files or queries (`duckdb:SELECT ...`).

    A source of several arms needs no baseline. Metrics are named as for `crucible compare`, `NAME` or `NAME:lower`, and columns by
    their roles. Nothing is stored. Raises SpecError.
    """
    contrasts, directions = read_claims(metrics, margin, alternative, relevant)
    options = ImportOptions(
        contrasts=contrasts,
        declared=Declared(ranges=ranges or {}).with_directions(directions),
        alpha=alpha,
        unpaired=unpaired,
    )
    sources = [candidate] if baseline is None else [candidate, baseline]
    return plan_comparison(sources, options, columns or {}, group).evaluate_unstored()


def plan_comparison(
    sources: Sequence[Any], options: ImportOptions, columns: Mapping[str, str], group: str
) -> ImportedRun:
    """Return the comparison of paths, queries or frames, read and planned. A frame without a column of arms is one, named by
    its place.

    Raises SpecError if nothing can be compared.
    """
    named = zip(sources, ("candidate", "baseline"), strict=False)
    files = [file for source, name in named for file in _read(source, name, columns, group)]
    planned = ImportedRun.of(files, replace(options, keeps_texts=False))
    planned.check_compared()
    return planned


def _read(source: Any, name: str, columns: Mapping[str, str], group: str) -> list[ImportedFile]:
    if isinstance(source, str | Path):
        return read_results(source, columns=columns, group=group, readers=importers())
    return [read_source(open_frame(source, name), columns=columns, group=group, readers=importers())]
