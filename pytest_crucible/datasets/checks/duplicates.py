"""Expectations on repeated samples and on the answers that belong to them."""

from __future__ import annotations

import numpy as np

from pytest_crucible.datasets.checks.arguments import check_number, check_share
from pytest_crucible.datasets.checks.check import Finder, Finding
from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.checks.expectation import column_check, row_check
from pytest_crucible.datasets.checks.values import row_finding
from pytest_crucible.datasets.overlap.duplicates import normalise_text
from pytest_crucible.datasets.overlap.within import find_equal, find_similar
from pytest_crucible.records.errors import SpecError


@row_check
def expect_no_duplicates(column: str = "input", near: float | None = 0.8) -> Finder:
    """Expect that no two samples have equal texts, or texts with a Jaccard similarity of at least `near`; None compares
    equality only.

    Texts are equal after normalising: white space, case and compatibility forms do not count. All samples of a pair fail.
    """
    if near is not None:
        check_number("near", near)
        if not 0.5 <= near <= 1:
            raise SpecError(f"near is {near!r}; write a similarity from 0.5 to 1, or None for equal texts only")

    def find(table: Table) -> Finding:
        values = table.column(column)
        bad = np.zeros(len(values.texts), dtype=bool)
        bad[find_equal(values.texts)] = True
        if near is not None:
            bad[find_similar(values.texts, near)] = True
        return row_finding(
            values,
            bad,
            "unlike all others",
            "repeat another text" if near is None else "repeat another text, or nearly",
        )

    return find


@row_check
def expect_one_answer_per_input(column: str = "input", answer: str = "expected") -> Finder:
    """Expect that samples with equal texts have equal answers. All samples of such a text fail."""

    def find(table: Table) -> Finding:
        values, answers = table.column(column), table.column(answer)
        both = sorted(set(values.present.tolist()) & set(answers.present.tolist()))
        texts = dict(zip(values.present.tolist(), values.texts, strict=True))
        labels = dict(zip(answers.present.tolist(), answers.labels, strict=True))
        of_text: dict[str, set[str]] = {}
        keys = [normalise_text(texts[position]) for position in both]
        for position, key in zip(both, keys, strict=True):
            of_text.setdefault(key, set()).add(normalise_text(labels[position]))
        bad = [len(of_text[key]) > 1 for key in keys]
        return Finding(
            message="of inputs with one answer",
            fault="have an input that has several answers",
            failing=np.array(both, dtype=np.intp)[np.array(bad, dtype=bool)],
            checked=len(both),
            missing=len(table) - len(both),
        )

    return find


@column_check
def expect_group_share_below(share: float = 0.5, column: str = "group") -> Finder:
    """Expect that no group has `share` of the samples, or more: results would be about that group."""
    check_share("share", share)

    def find(table: Table) -> Finding:
        values = table.column(column)
        names, counts = np.unique(np.array(values.labels, dtype=object), return_counts=True)
        if not len(names):
            return Finding(message="no sample has a value", missing=values.missing, is_met=False)
        largest = int(np.argmax(counts))
        of = counts[largest] / counts.sum()
        met = bool(of < share)
        expected = "" if met else f", and a share below {share:g} is expected"
        return Finding(
            message=f"the largest of {len(names):,} groups, {names[largest]}, has {counts[largest]:,} of {counts.sum():,} samples "
            f"({of:.4g}){expected}",
            checked=int(counts.sum()),
            missing=values.missing,
            is_met=met,
        )

    return find
