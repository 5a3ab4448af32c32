"""The expectation that a field has not drifted since another dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.checks.arguments import check_choice, check_flag, check_share
from pytest_crucible.datasets.checks.check import Check, CheckContext, Finder, Finding
from pytest_crucible.datasets.checks.columns import MissingColumn, Table
from pytest_crucible.datasets.checks.embeddings import open_embed
from pytest_crucible.datasets.checks.expectation import column_check
from pytest_crucible.datasets.drift.compare import DriftRow, FieldKind, compare_datasets, decide_row
from pytest_crucible.datasets.drift.rows import load_rows_of_file
from pytest_crucible.datasets.drift.text_vectors import tfidf_vectors
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.number_format import p_equals

METHODS: dict[str, FieldKind | None] = {"auto": None, "ks": "numbers", "chi2": "categories", "mmd": "texts"}


@column_check
def expect_no_data_drift(
    column: str,
    baseline: Any,
    margin: float | None = None,
    alpha: float = 0.05,
    method: str = "auto",
    embeddings: bool = False,
) -> Check:
    """Expect that a field has not drifted since `baseline`, a file.

    Without a margin, proven drift at `alpha` fails. With a margin on the distance (Kolmogorov-Smirnov's of numbers, total
    variation of categories), a distance proven to be above it fails, and one that is proven neither way warns. `method` is
    "auto", "ks" (numbers), "chi2" (categories) or "mmd" (texts). With `embeddings`, texts are compared by MiniLM (extra
    [semantic]) instead of by their words.
    """
    check_share("alpha", alpha)
    check_choice("method", method, METHODS)
    check_flag("embeddings", embeddings)
    if embeddings and METHODS[method] not in (None, "texts"):
        raise SpecError(f'embeddings are of texts, and method is {method!r}; write method="mmd", or remove embeddings')
    if margin is not None:
        check_share("margin", margin)
    if not isinstance(baseline, str | Path):
        raise SpecError("baseline must be the path of a file, such as 'march.jsonl'")

    def bind(context: CheckContext) -> Finder:
        return lambda table: _find(
            table, column, context.folder / baseline, str(baseline), margin, alpha, METHODS[method], embeddings
        )

    return Check(subject="", call="", find=bind(CheckContext()), files=(str(baseline),), shares_alpha=True, bind=bind)


def _find(
    table: Table,
    column: str,
    path: Path,
    name: str,
    margin: float | None,
    alpha: float,
    kind: FieldKind | None,
    embeddings: bool,
) -> Finding:
    if not path.is_file():
        raise SpecError(f"{name} does not exist; correct baseline=")
    table.column(column)
    kinds = {} if kind is None else {column: kind}
    try:
        old = load_rows_of_file(path)
        embed = open_embed() if embeddings else tfidf_vectors
        [row] = compare_datasets(
            old, table.samples, fields=[column], margin=margin, alpha=alpha, kinds=kinds, embed=embed
        ).rows
    except MissingColumn as error:
        raise SpecError(f"in {name} {error}") from None
    if row.drift is None:
        raise SpecError(f"the field cannot be compared: {row.note}")
    if margin is not None and row.drift.distance is None:
        raise SpecError("texts have no distance to compare with a margin; remove margin")
    return _finding(row, margin, alpha)


def _finding(row: DriftRow, margin: float | None, alpha: float) -> Finding:
    assert row.drift is not None
    return Finding(
        message=drift_text(row, alpha, margin),
        checked=row.drift.n[1],
        missing=row.missing[1],
        is_met=not row.fails(alpha),
        is_open=row.state == "undecided",
        p_value=row.drift.p_value,
        adjust=lambda p, size: _finding(decide_row(replace(row, p_adjusted=p), margin, alpha, size), margin, alpha),
    )


def drift_text(row: DriftRow, alpha: float, margin: float | None) -> str:
    """Return the facts about a field's drift."""
    drift = row.drift
    assert drift is not None
    proven = "drift proven" if row.is_proven(alpha) else "no drift proven"
    test = f"{drift.test}, {p_equals(row.p_adjusted)}, n = {drift.n[0]:,} and {drift.n[1]:,}"
    if margin is None or drift.distance is None:
        return f"{proven} ({test})"
    place = {"met": "within", "missed": "beyond", "undecided": "not shown to be within"}[row.state or "undecided"]
    bound = drift.lower(alpha) if row.state == "missed" else drift.upper(alpha)
    side = "at least" if row.state == "missed" else "at most"
    return f"{proven}, {place} the margin {margin:g}: the distance is {drift.distance:.3g}, {side} {bound:.3g} ({test})"
