"""Reads people's labels of attacked texts: whether the expected answer is still right (`robustness(kept="variants.csv")`)."""

from __future__ import annotations

import csv
from collections.abc import Container, Sequence
from pathlib import Path

import pytest

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.formula_cells import unguard_cell
from pytest_crucible.session.robustness_marks import RobustnessMark

_YES, _NO = frozenset({"1", "yes", "y", "true", "kept"}), frozenset({"0", "no", "n", "false"})
_COLUMNS = ("sample", "variant", "kept")


def read_kept(
    marks: Sequence[RobustnessMark], item: pytest.Item, variants: Container[str]
) -> dict[str, dict[str, bool]]:
    """Return variant -> sample -> label of the files that marks name, next to the test or below pytest's root directory.

    Rows without a label, and of other variants, are left out. Raises SpecError with the line.
    """
    kept: dict[str, dict[str, bool]] = {}
    for name in dict.fromkeys(mark.kept for mark in marks if mark.kept is not None):
        for number, row in enumerate(_rows(item, name), start=2):
            label = row["kept"].strip().lower()
            if label not in (*_YES, *_NO, ""):
                raise SpecError(f"{name}, line {number}: kept is {row['kept']!r}; write yes, no or nothing")
            if label and row["variant"] in variants:
                kept.setdefault(row["variant"], {})[row["sample"]] = label in _YES
    return kept


def _rows(item: pytest.Item, name: str) -> list[dict[str, str]]:
    path = _find(item, name)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
            if missing:
                raise SpecError(
                    f"{name} has no column {missing[0]!r}: write it with crucible export --what variants -o {name}, "
                    "and fill in the column 'kept'"
                )
            return [{name: unguard_cell(row[name] or "") for name in _COLUMNS} for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SpecError(
            f"kept={name!r} cannot be read ({error}): write it with crucible export --what variants"
        ) from None


def _find(item: pytest.Item, name: str) -> Path:
    beside = item.path.parent / name
    return beside if beside.exists() else item.config.rootpath / name
