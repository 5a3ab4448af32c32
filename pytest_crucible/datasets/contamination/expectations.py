"""The expectations that a model was not trained on the samples, and that a field has not drifted since another dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.datasets import identify
from pytest_crucible.datasets.check import Check, CheckContext, Finder, Finding
from pytest_crucible.datasets.columns import MissingColumn, Table
from pytest_crucible.datasets.contamination.compare import (
    compare_with_file,
    find_similar_embeddings,
    open_embed,
    sample_texts,
)
from pytest_crucible.datasets.contamination.drift import (
    DriftRow,
    FieldKind,
    compare_datasets,
    load_rows_of_file,
    tfidf_vectors,
)
from pytest_crucible.datasets.contamination.matching import NEAR_MATCH, read_training_rows
from pytest_crucible.datasets.expectation import (
    check_choice,
    check_flag,
    check_number,
    check_share,
    column_check,
    row_check,
)
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.stats.data_drift import FieldDrift
from pytest_crucible.stats.number_format import p_equals


@row_check
def expect_not_contaminated(
    against: Any, near: float = NEAR_MATCH, drop: bool = False, embeddings: bool = False
) -> Check:
    """Expect that no row of the file `against` matches a sample: equal, containing, similar, or of its group.

    `near` is the Jaccard similarity from which on a row is similar. With `embeddings`, so is a row of the same meaning, whose
    MiniLM embedding (extra [semantic]) has a cosine of at least 0.9. With `drop`, matched samples are not sent instead of failing
    the check.
    """
    if not isinstance(against, str | Path):
        raise SpecError("against must be the path of a training file, such as 'train.jsonl'")
    check_number("near", near)
    if not 0.5 <= near <= 1:
        raise SpecError(f"near is {near!r}; write a similarity from 0.5 to 1")
    check_flag("drop", drop)
    check_flag("embeddings", embeddings)

    def bind(context: CheckContext) -> Finder:
        return lambda table: _find_matches(table, context, str(against), near, embeddings)

    return Check(
        subject="", call="", find=bind(CheckContext()), columns=("input",), files=(str(against),), bind=bind, drops=drop
    )


def _find_matches(table: Table, context: CheckContext, against: str, near: float, embeddings: bool) -> Finding:
    samples = table.samples
    sha256 = identify("", samples).sha256
    path = context.folder / against
    overlap = compare_with_file(samples, path, dataset_sha256=sha256, name=against, near=near, cache=context.cache)
    if overlap.problem:
        raise SpecError(f"{against} cannot be checked: {overlap.problem}; correct against=")
    positions = {match.position for match in overlap.matches}
    if embeddings:
        positions |= _similar_positions(samples, path)
    failing = np.array(sorted(positions), dtype=np.intp)
    text = f"match a row of {against}"
    return Finding(message=f"unlike every row of {against}", fault=text, failing=failing, checked=len(samples))


def _similar_positions(samples: Sequence[Sample], path: Path) -> set[int]:
    texts = sample_texts(samples)
    similar = {entry.sample for entry in find_similar_embeddings(texts, read_training_rows(path), open_embed())}
    return {position for position, text in enumerate(texts) if text.id in similar}


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

    Without a margin, proven drift at `alpha` fails, of the values or of the share of missing ones. With a margin on the
    distance (Kolmogorov-Smirnov's of numbers, total variation of categories and of missing values), a distance proven to be
    above it fails, and one that is proven neither way warns. `method` is "auto", "ks" (numbers), "chi2" (categories) or "mmd"
    (texts). With `embeddings`, texts are compared by MiniLM (extra [semantic]) instead of by their words.
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
        return lambda table: _find_drift(
            table, column, context.folder / baseline, str(baseline), margin, alpha, METHODS[method], embeddings
        )

    return Check(subject="", call="", find=bind(CheckContext()), files=(str(baseline),), shares_alpha=True, bind=bind)


def _find_drift(
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
    if not row.parts:
        raise SpecError(f"the field cannot be compared: {row.note}")
    if margin is not None and row.drift is not None and row.drift.distance is None:
        raise SpecError("texts have no distance to compare with a margin; remove margin")
    return _drift_finding(row, margin, alpha)


def _drift_finding(row: DriftRow, margin: float | None, alpha: float) -> Finding:
    return Finding(
        message=drift_text(row, alpha, margin),
        checked=row.parts[0].n[1],
        missing=row.missing[1],
        is_met=not row.fails(alpha),
        is_open=row.state == "undecided",
        p_value=row.p_value(margin),
        adjust=lambda p, size: _drift_finding(replace(row, p_adjusted=p).decide(margin, alpha, size), margin, alpha),
    )


def drift_text(row: DriftRow, alpha: float, margin: float | None) -> str:
    """Return the facts about a field's drift."""
    head = "drift proven" if row.is_proven(alpha) else "no drift proven"
    if row.state is not None:
        place = {"met": "within", "missed": "beyond", "undecided": "not shown to be within"}[row.state]
        head += f", {place} the margin {margin:g}"
    note = f"; {row.note}" if row.note else ""
    if row.missing_drift is None:
        assert row.drift is not None
        distance = _distance_text(row.drift, row, margin, alpha)
        return f"{head}{distance and f': {distance}'} ({_test_text(row.drift, row.p_adjusted)}){note}"
    facts = [f"{row.missing_text()} ({_part_text(row.missing_drift, row, margin, alpha)})"]
    if row.drift is not None:
        facts.insert(0, f"of the values: {_part_text(row.drift, row, margin, alpha)}")
    return f"{head} ({p_equals(row.p_adjusted)} for values and missing ones together); {'; '.join(facts)}{note}"


def _part_text(drift: FieldDrift, row: DriftRow, margin: float | None, alpha: float) -> str:
    distance = _distance_text(drift, row, margin, alpha)
    return f"{distance and f'{distance}, '}{_test_text(drift, drift.p_value)}"


def _test_text(drift: FieldDrift, p: float | None) -> str:
    return f"{drift.test}, {p_equals(p)}, n = {drift.n[0]:,} and {drift.n[1]:,}"


def _distance_text(drift: FieldDrift, row: DriftRow, margin: float | None, alpha: float) -> str:
    """Return a distance with the bound by which it is beyond the margin, or not; empty without a decision on it."""
    lower, upper = drift.lower(alpha), drift.upper(alpha)
    if row.state is None or margin is None or lower is None or upper is None:
        return ""
    is_beyond = row.state == "missed" and lower > margin
    bound = f"at least {lower:.3g}" if is_beyond else f"at most {upper:.3g}"
    return f"the distance is {drift.distance:.3g}, {bound}"
