"""Removes rows that repeat an earlier row of a training set.

The words that a test writes around all its samples do not distinguish them: of a long template with short questions, nearly all
words would be equal. So prompts of one template are compared by the samples' own texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_crucible.datasets.duplicates import find_duplicates
from pytest_crucible.records import TrainingRow
from pytest_crucible.training_sets.reading import FileRow, text_of

EQUAL, NEAR = "equal to an earlier row", "differs from an earlier row in at most 5 % of the words"


def drop_duplicates(rows: Sequence[TrainingRow], left_out: Counter[str]) -> list[TrainingRow]:
    """Return the rows without those that repeat an earlier one, which are counted."""
    samples: dict[int, set[str]] = {}
    for row in rows:
        if row.template is not None:
            samples.setdefault(row.template, set()).add(row.own)
    shared = {template for template, texts in samples.items() if len(texts) > 1}
    kept = []
    for row, duplicate in zip(rows, find_duplicates([_texts(row, shared) for row in rows]), strict=True):
        if duplicate is None:
            kept.append(row)
        else:
            left_out[EQUAL if duplicate.is_equal else NEAR] += 1
    return kept


def repeats_of(new: Sequence[FileRow], old: Sequence[FileRow]) -> dict[int, str]:
    """Return the positions of old rows that repeat a new or an earlier old one, and why they do."""
    duplicates = find_duplicates([_file_texts(row) for row in (*new, *old)])[len(new) :]
    return {
        position: EQUAL if duplicate.is_equal else NEAR
        for position, duplicate in enumerate(duplicates)
        if duplicate is not None
    }


def _texts(row: TrainingRow, shared: set[int]) -> tuple[str, ...]:
    is_template = row.template in shared
    prompt = row.own if is_template else text_of(row.prompt)
    template = str(row.template) if is_template else ""
    return (template, prompt, row.completion, row.rejected or "", str(row.label))


def _file_texts(row: FileRow) -> tuple[str, ...]:
    rejected = "" if row.rejected is None else text_of(row.rejected)
    return (text_of(row.prompt), text_of(row.completion), rejected, str(row.label))
