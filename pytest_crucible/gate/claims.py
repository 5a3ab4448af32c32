"""Claims of report sections: adjusts their p-values, and decides a verdict on those that can fail the session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_crucible.records import Analysis, Claim, SectionOutcome, Verdict
from pytest_crucible.stats import holm


def deciding_claims(analysis: Analysis) -> list[tuple[str, Claim]]:
    """Return the claims that can fail the session, each with the name of its section."""
    return [(name, claim) for name, outcome in analysis.sections.items() for claim in outcome.claims if claim.fails]


def adjust_claims(analyses: Sequence[Analysis], deciding: Iterator[float | None]) -> Iterator[Analysis]:
    """Yield each analysis with its claims adjusted.

    `deciding` are the adjusted p-values of the claims that can fail the session, in their order. The others are adjusted
    over the same section of all experiments: so a section's findings cost the candidate's claims nothing.
    """
    own = _own_families(analyses)
    for analysis in analyses:
        sections = {name: _adjust_outcome(outcome, deciding, own[name]) for name, outcome in analysis.sections.items()}
        yield replace(analysis, sections=sections)


def _own_families(analyses: Sequence[Analysis]) -> Mapping[str, Iterator[float | None]]:
    """Return, by section, the adjusted p-values of the claims that decide nothing."""
    p_values: dict[str, list[float | None]] = {}
    for analysis in analyses:
        for name, outcome in analysis.sections.items():
            p_values.setdefault(name, []).extend(claim.p_value for claim in outcome.claims if not claim.fails)
    return {name: iter(holm(family, family_size=len(family))) for name, family in p_values.items()}


def _adjust_outcome(
    outcome: SectionOutcome, deciding: Iterator[float | None], own: Iterator[float | None]
) -> SectionOutcome:
    # Both iterators are consumed in the order in which the p-values were collected.
    claims = tuple(replace(claim, p_adjusted=next(deciding if claim.fails else own)) for claim in outcome.claims)
    return replace(outcome, claims=claims)


def claim_verdicts(analysis: Analysis, withheld: str, *, alpha: float) -> Iterator[Verdict]:
    """Yield a verdict for each claim that can fail the session, and an error in the suite where a section hides its claims.

    `withheld` is why no verdict may be given on this experiment, or empty.
    """
    for name, claim in deciding_claims(analysis):
        proven = not withheld and claim.p_adjusted is not None and claim.p_adjusted <= alpha
        untested = withheld or ("its data allow no test" if claim.p_adjusted is None else "")
        yield Verdict(
            nodeid=analysis.plan.nodeid,
            subject=claim_subject(name, claim),
            kind="claim",
            state="missed" if proven else "undecided" if untested else "met",
            proven=proven,
            reason=(claim.reason or "the claim is proven") if proven else untested or "the claim is not proven",
        )
    for name, outcome in analysis.sections.items():
        # A section that has no such claims, or that raised when they were known, changes no verdict.
        if outcome.hides_claims:
            yield Verdict(
                nodeid=analysis.plan.nodeid,
                subject=name,
                kind="claim",
                state="undecided",
                proven=False,
                reason=f"the section {name!r} raised {outcome.error}; its claims, which can fail the session, are unknown",
                suite_error=True,
            )


def claim_subject(section: str, claim: Claim) -> str:
    """Return the subject of a claim's verdict: `refusals: v2 refuses more often than v1`."""
    return f"{section}: {claim.subject}"
