"""The expectation that a model was not trained on the samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.datasets import identify
from pytest_crucible.datasets.checks.arguments import check_number
from pytest_crucible.datasets.checks.check import Check, CheckContext, Finder, Finding, row_check
from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.overlap.compare_file import compare_with_file
from pytest_crucible.datasets.overlap.matching import NEAR_MATCH
from pytest_crucible.records.errors import SpecError


@row_check
def expect_not_contaminated(against: Any, near: float = NEAR_MATCH, drop: bool = False) -> Check:
    """Expect that no row of the file `against` matches a sample: equal, containing, similar, or of its group.

    `near` is the Jaccard similarity from which on a row is similar. With `drop`, matched samples are not sent instead of
    failing the check.
    """
    if not isinstance(against, str | Path):
        raise SpecError("against is the path of a training file, such as 'train.jsonl'")
    check_number("near", near)
    if not 0.5 <= near <= 1:
        raise SpecError(f"near is {near!r}; write a similarity from 0.5 to 1")
    if not isinstance(drop, bool):
        raise SpecError("drop is True or False")

    def bind(context: CheckContext) -> Finder:
        return lambda table: _find(table, context, str(against), near)

    return Check(
        subject="", call="", find=bind(CheckContext()), columns=("input",), files=(str(against),), bind=bind, drops=drop
    )


def _find(table: Table, context: CheckContext, against: str, near: float) -> Finding:
    samples = table.samples
    sha256 = identify("", samples).sha256
    path = context.folder / against
    overlap = compare_with_file(samples, path, dataset_sha256=sha256, name=against, near=near, cache=context.cache)
    if overlap.problem:
        raise SpecError(f"{against} cannot be checked: {overlap.problem}; correct against=")
    failing = np.array([match.position for match in overlap.matches], dtype=np.intp)
    text = f"match a row of {against}"
    return Finding(message=f"unlike every row of {against}", fault=text, failing=failing, checked=len(samples))
