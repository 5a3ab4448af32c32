"""Runs sections: loads them, computes their results and claims, and lets them show the adjusted claims, or that they raised."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_crucible.features.row import Placed
from pytest_crucible.records import Analysis, Claim, Note, Plan, SectionOutcome, View
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.sections import Section

if TYPE_CHECKING:
    from pytest_crucible.sections.inputs import SectionInputs

# Lines of the traceback that are shown, the innermost ones: a recursion has a thousand frames.
MOST_LINES = 12


def failed_outcome(error: BaseException) -> SectionOutcome:
    """Return the outcome of a section that raised an exception."""
    lines = "".join(traceback.format_tb(error.__traceback__)).splitlines()
    return SectionOutcome(error=f"{type(error).__name__}: {error}", traceback=tuple(lines[-MOST_LINES:]))


def failure_view(name: str, outcome: SectionOutcome) -> View:
    """Return the view of a section that raised. Where its claims are unknown, their verdict has the sentence already."""
    sentence = f"the section {name!r} could not be shown: {outcome.error}; no verdict depends on it"
    details = Note(text=f"the section {name!r} raised {outcome.error}", details=outcome.traceback, verbosity=1)
    return View(
        title=name,
        notes=(details,) if outcome.hides_claims else (Note(text=sentence), details),
        document={"error": outcome.error},
    )


FUNCTIONS = ("compute", "claims", "view")


def load_sections(registered: Mapping[str, Section | Placed | str]) -> dict[str, Section | Placed]:
    """Return each section by its name. A text names a module, or "module:attribute".

    Those of the package stay references: they are imported for the first plan that they concern. Raises SpecError for an
    object without the three functions.
    """
    sections = {name: load_object(section) for name, section in registered.items()}
    for name, section in sections.items():
        if isinstance(section, Placed):
            continue
        missing = [function for function in FUNCTIONS if not callable(getattr(section, function, None))]
        if missing:
            raise SpecError(
                f"section {name!r} is {section!r}, which has no function {missing[0]!r}: "
                "a section has compute(inputs), claims(result) and view(result, claims)"
            )
    return sections


def load_section(section: Section | Placed) -> Section:
    """Return a section, imported if it is a reference."""
    loaded: Section = load_object(section.section) if isinstance(section, Placed) else section
    return loaded


def sections_of(sections: Mapping[str, Section | Placed], plan: Plan) -> dict[str, Section]:
    """Return the sections that may have something to show of a plan, imported."""
    return {name: load_section(section) for name, section in sections.items() if _concerns(section, plan)}


def _concerns(section: Section | Placed, plan: Plan) -> bool:
    # An explanation measures changed prompts: what other sections say of samples would be about these.
    if getattr(section, "of_explanations", False) != (plan.purpose == "explanation"):
        return False
    return not isinstance(section, Placed) or section.concerns(plan)


def compute_sections(sections: Mapping[str, Section | Placed], inputs: SectionInputs) -> dict[str, SectionOutcome]:
    """Return the outcome of each section that has something to show of one experiment. Views are added later."""
    if inputs.counts:
        return _compute_of_counts(sections, inputs)
    concerned = sections_of(sections, inputs.plan)
    return {name: outcome for name, section in concerned.items() for outcome in _compute(section, inputs)}


def _compute_of_counts(sections: Mapping[str, Section | Placed], inputs: SectionInputs) -> dict[str, SectionOutcome]:
    """Return the outcomes of an experiment that is larger than memory: of the sections that read no single replies."""
    of_counts = {name: section for name, section in sections.items() if getattr(section, "of_counts", False)}
    left_out = [
        name
        for name, section in sections.items()
        if name not in of_counts and (not isinstance(section, Placed) or section.concerns(inputs.plan))
    ]
    # A section of another plugin may hold a claim that fails the session: without it, nothing passes.
    hidden = {
        name: SectionOutcome(error="nothing: it needs all replies in memory, and there are too many", hides_claims=True)
        for name in left_out
        if not isinstance(sections[name], Placed) and may_decide(load_section(sections[name]))
    }
    doubting = (name for name in left_out if hasattr(load_section(sections[name]), "doubts"))
    inputs = replace(inputs, left_out=tuple(left_out), without_doubts_of=tuple(doubting))
    concerned = sections_of(of_counts, inputs.plan)
    return hidden | {name: outcome for name, section in concerned.items() for outcome in _compute(section, inputs)}


def add_views(sections: Mapping[str, Section | Placed], analysis: Analysis) -> Analysis:
    """Return the analysis with the views of its sections. Claims must have been adjusted."""
    return replace(
        analysis,
        sections={
            name: _show(name, load_section(sections[name]), outcome) for name, outcome in analysis.sections.items()
        },
    )


def may_decide(section: Section) -> bool:
    """Return whether claims of a section may fail the session: unless it declares `decides = False`."""
    return bool(getattr(section, "decides", True))


# A section that raises must not cost the session its verdicts, and its own place in the report shows that it raised. Only
# where it may have had claims that fail the session it may not pass: then the gate makes it an error in the suite.


def _compute(section: Section, inputs: SectionInputs) -> Iterator[SectionOutcome]:
    claims = None
    try:
        result = section.compute(inputs)
        if result is not None:
            claims = _list_claims(section, result)
            _check_claims(section, claims)
            doubts, remarks = (getattr(section, name, lambda _: ())(result) for name in ("doubts", "remarks"))
            yield SectionOutcome(result=result, claims=claims, doubts=tuple(doubts), remarks=dict(remarks))
    # sys.exit in a plugin's section is an error like others.
    except (Exception, SystemExit) as error:
        hides = may_decide(section) if claims is None else any(claim.fails for claim in claims)
        yield replace(failed_outcome(error), hides_claims=hides)


def _show(name: str, section: Section, outcome: SectionOutcome) -> SectionOutcome:
    if not outcome.error:
        try:
            view = section.view(outcome.result, outcome.claims)
            if not isinstance(view, View):
                raise TypeError(f"view() returned {view!r}, not a View")
            # A value without a JSON form is an error of this section, not of the reports that cannot write it.
            to_plain(view.document)
            return replace(outcome, view=view)
        except (Exception, SystemExit) as error:
            failed = failed_outcome(error)
            outcome = replace(outcome, error=failed.error, traceback=failed.traceback)
    return replace(outcome, view=failure_view(name, outcome))


def _list_claims(section: Section, result: object) -> tuple[Claim, ...]:
    claims = tuple(section.claims(result))
    stranger = next((claim for claim in claims if not isinstance(claim, Claim)), None)
    if stranger is not None:
        raise TypeError(f"claims() returned {stranger!r}, not a Claim")
    return claims


def _check_claims(section: Section, claims: Sequence[Claim]) -> None:
    """Raise ValueError for two claims of one subject, by which verdicts are stored, and for one that the section denies."""
    subjects = [claim.subject for claim in claims]
    twice = next((subject for subject in subjects if subjects.count(subject) > 1), None)
    if twice is not None:
        raise ValueError(f"two claims are named {twice!r}: give each claim a subject of its own")
    deciding = next((claim.subject for claim in claims if claim.fails), None)
    if deciding is not None and not may_decide(section):
        raise ValueError(
            f"the section has decides = False, and its claim {deciding!r} has fails=True: remove one of them"
        )
