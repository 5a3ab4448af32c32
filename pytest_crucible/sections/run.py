"""Runs sections: loads them, computes their results and claims, and lets them show the adjusted claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_crucible.records import Analysis, Claim, SectionOutcome, View
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.sections import Section
from pytest_crucible.sections.inputs import SectionInputs

FUNCTIONS = ("compute", "claims", "view")


def load_sections(registered: Mapping[str, Section | str]) -> dict[str, Section]:
    """Return each section by its name. A text names a module, or "module:attribute".

    Raises SpecError for an object without the three functions.
    """
    sections = {name: load_object(section) for name, section in registered.items()}
    for name, section in sections.items():
        missing = [function for function in FUNCTIONS if not callable(getattr(section, function, None))]
        if missing:
            raise SpecError(
                f"section {name!r} is {section!r}, which has no function {missing[0]!r}: "
                "a section has compute(inputs), claims(result) and view(result, claims)"
            )
    return sections


def compute_sections(sections: Mapping[str, Section], inputs: SectionInputs) -> dict[str, SectionOutcome]:
    """Return the outcome of each section that has something to show of one experiment. Views are added later."""
    return {name: outcome for name, section in sections.items() for outcome in _compute(section, inputs)}


def add_views(sections: Mapping[str, Section], analysis: Analysis) -> Analysis:
    """Return the analysis with the views of its sections. Claims must have been adjusted."""
    return replace(
        analysis, sections={name: _show(sections[name], outcome) for name, outcome in analysis.sections.items()}
    )


# A section that raises must not cost the session its verdicts, nor may it pass unseen: its claims could have failed the
# session. So the exception becomes an outcome, which the gate turns into an error in the suite.


def _compute(section: Section, inputs: SectionInputs) -> Iterator[SectionOutcome]:
    try:
        result = section.compute(inputs)
        if result is not None:
            yield SectionOutcome(result=result, claims=_check_subjects(section.claims(result)))
    except Exception as error:
        yield SectionOutcome(error=f"{type(error).__name__}: {error}")


def _show(section: Section, outcome: SectionOutcome) -> SectionOutcome:
    if outcome.error:
        return outcome
    try:
        view = section.view(outcome.result, outcome.claims)
        if not isinstance(view, View):
            raise TypeError(f"view() returned {view!r}, not a View")
        return replace(outcome, view=view)
    except Exception as error:
        return replace(outcome, error=f"{type(error).__name__}: {error}")


def _check_subjects(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Raises ValueError for two claims of one subject: a verdict is stored and reported by its subject."""
    subjects = [claim.subject for claim in claims]
    twice = next((subject for subject in subjects if subjects.count(subject) > 1), None)
    if twice is not None:
        raise ValueError(f"two claims are named {twice!r}: give each claim a subject of its own")
    return tuple(claims)
