"""Sections of a report, one module each: its computation, its claims and its view.

A section is any object, a module for example, with the three functions of `Section`. The built-in ones are registered through
the hook `pytest_crucible_sections`, as everyone's are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pytest_crucible.records.views import (
    Chart,
    Claim,
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

# Name -> module, in the order in which reports show them.
BUILT_IN: Mapping[str, str] = {
    "many_arms": "pytest_crucible.sections.many_arms",
    "losses": "pytest_crucible.sections.losses",
    "robustness": "pytest_crucible.sections.robustness",
    "sweep": "pytest_crucible.sections.sweep",
    "stopping": "pytest_crucible.sections.stopping",
    "stages": "pytest_crucible.sections.stages",
    "cache": "pytest_crucible.sections.cache",
    "reruns": "pytest_crucible.sections.reruns",
    "candidates": "pytest_crucible.sections.candidates",
    "stored_baselines": "pytest_crucible.sections.stored_baselines",
    "variance": "pytest_crucible.sections.variance",
    "drift": "pytest_crucible.sections.drift",
    "training": "pytest_crucible.sections.training",
    "data_checks": "pytest_crucible.sections.data_checks",
    "contamination": "pytest_crucible.sections.contamination",
    "judges": "pytest_crucible.sections.judges",
    "usage": "pytest_crucible.sections.usage",
    "diversity": "pytest_crucible.sections.diversity",
    "detection": "pytest_crucible.sections.detection",
    "slices": "pytest_crucible.sections.slices",
    "fairness": "pytest_crucible.sections.fairness",
    "twins": "pytest_crucible.sections.twins",
    "slice_search": "pytest_crucible.sections.slice_search",
    "worst_samples": "pytest_crucible.sections.worst_samples",
}


class Section(Protocol):
    """One part of the report. Its name is the key under which the hook returns it.

    A section without claims that can fail the session says so by an attribute, `decides = False`: when it raises, the session
    passes with a note in its place. Without the attribute a section that raises before its claims are known fails the session.
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
    "BUILT_IN",
    "Chart",
    "Claim",
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
