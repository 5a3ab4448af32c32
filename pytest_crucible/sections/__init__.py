"""Sections of a report, one module each: its computation, its claims and its view.

A section is any object, a module for example, with the three functions of `Section`. The built-in ones are registered through
the hook `pytest_crucible_sections`, as everyone's are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pytest_crucible.records.views import (
    Chart,
    Claim,
    Doubt,
    Excerpt,
    Note,
    Point,
    Row,
    SectionOutcome,
    Statement,
    Table,
    View,
)

if TYPE_CHECKING:
    from pytest_crucible.sections.inputs import SectionInputs as SectionInputs


class Section(Protocol):
    """One part of the report. Its name is the key under which the hook returns it.

    A section with the attribute `of_counts = True` reads no single replies (`inputs.counts` has their numbers), and is computed
    also of an experiment that is larger than memory. Others are left out there.

    A section without claims that can fail the session says so by an attribute, `decides = False`: when it raises, the session
    passes with a note in its place. Without the attribute a section that raises before its claims are known fails the session.

    Two more functions are optional. `doubts(result)` returns facts by which the experiment did not measure what it claims to
    (`Doubt`): each is a missed verdict, and all others are undecided. `remarks(result)` returns sentences that are added to the
    reasons of verdicts, by their subject.
    """

    def compute(self, inputs: SectionInputs, /) -> Any:
        """Return the section's result for one experiment, or None if it has nothing to show.

        Pure: it reads nothing but `inputs`, and neither writes nor prints.
        """

    def claims(self, result: Any, /) -> Sequence[Claim]:
        """Return the p-values of a result: those that can fail the session, and those of the section's own family."""

    def view(self, result: Any, claims: Sequence[Claim], /) -> View:
        """Return the view of a result. `claims` are those of the result, with their adjusted p-values."""


__all__ = [
    "Chart",
    "Claim",
    "Doubt",
    "Excerpt",
    "Note",
    "Point",
    "Row",
    "Section",
    "SectionOutcome",
    "Statement",
    "Table",
    "View",
]
