"""Texts in CSV cells that a spreadsheet would run as a formula: they get an apostrophe, and lose it when they are read again."""

from __future__ import annotations

import re
from collections.abc import Collection

# Blanks, marks and controls before the sign do not help: spreadsheets skip them. With apostrophes, so that each text comes back.
_FORMULA = re.compile(r"'*[\s\x00-\x20\ufeff\u200b]*[=+\-@\uff1d\uff0b\uff0d\uff20]")
# The columns that each table of `crucible export` has, and no file of another program.
_OF_EXPORTS = frozenset({"run", "experiment", "arm"})


def guard_cell(text: str) -> str:
    r"""Return a text that no spreadsheet takes for a formula.

    >>> guard_cell("=1+1"), guard_cell("\t@x"), guard_cell("'=1"), guard_cell("a=1"), guard_cell("'a'")
    ("'=1+1", "'\t@x", "''=1", 'a=1', "'a'")
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unguard_cell(cell: str) -> str:
    """Return the text of a cell that `guard_cell` wrote.

    >>> unguard_cell("'=1+1"), unguard_cell("''=1"), unguard_cell("'a'")
    ('=1+1', "'=1", "'a'")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def has_guarded_cells(columns: Collection[str]) -> bool:
    """Return True for the columns of an exported table: in other files an apostrophe is part of the text."""
    return _OF_EXPORTS.issubset(columns)
