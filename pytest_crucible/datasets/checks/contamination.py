"""The expectation that a model was not trained on the samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.datasets import identify
from pytest_crucible.datasets.checks.arguments import check_flag, check_number
from pytest_crucible.datasets.checks.check import Check, CheckContext, Finder, Finding
from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.checks.embeddings import open_embed
from pytest_crucible.datasets.checks.expectation import row_check
from pytest_crucible.datasets.overlap.compare_file import compare_with_file, sample_texts
from pytest_crucible.datasets.overlap.matching import NEAR_MATCH
from pytest_crucible.datasets.overlap.similar_embeddings import find_similar_embeddings
from pytest_crucible.datasets.overlap.training_rows import read_training_rows
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError


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
        return lambda table: _find(table, context, str(against), near, embeddings)

    return Check(
        subject="", call="", find=bind(CheckContext()), columns=("input",), files=(str(against),), bind=bind, drops=drop
    )


def _find(table: Table, context: CheckContext, against: str, near: float, embeddings: bool) -> Finding:
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
