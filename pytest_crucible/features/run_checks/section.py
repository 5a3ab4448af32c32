"""The section "what was measured": what was sent and answered in each arm, and what is doubtful about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pytest_crucible.features.run_checks.answered import check_answered
from pytest_crucible.features.run_checks.determinism import check_determinism
from pytest_crucible.features.run_checks.ends import check_ends
from pytest_crucible.features.run_checks.finding import (
    OWN_SEVERITIES,
    SEVERITIES,
    ArmColumns,
    CheckInputs,
    Finding,
    Severity,
)
from pytest_crucible.features.run_checks.judges import check_judges
from pytest_crucible.features.run_checks.prompts import check_prompts
from pytest_crucible.features.run_checks.reasoning import check_reasoning
from pytest_crucible.features.run_checks.refreshed import check_refreshed
from pytest_crucible.features.run_checks.sent import check_sent
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Analysis
from pytest_crucible.records.serialize import pick
from pytest_crucible.sections import Claim, Doubt, Note, Row, Table, View
from pytest_crucible.sections.inputs import SectionInputs, no_claims

if TYPE_CHECKING:
    from pytest_crucible.runs.reproduction import ReproductionCheck


def _check_equal_replies(inputs: CheckInputs) -> Iterable[Finding]:
    arm = inputs.arms[0].arm
    if len(inputs.arms) == 1 and not arm.members and not arm.without_effect:
        return ()
    # The module is loaded where an arm could be equal to something.
    from pytest_crucible.features.run_checks.equal_replies import check_equal_replies

    return check_equal_replies(inputs)


def _check_competitors(inputs: CheckInputs) -> Iterable[Finding]:
    competitions = inputs.section.stored.competitions()
    if not competitions:
        return ()
    # The module is loaded by sessions with a sweep alone.
    from pytest_crucible.features.run_checks.competitors import check_competitors

    return check_competitors(inputs, competitions)


def _check_training_prompts(inputs: CheckInputs) -> Iterable[Finding]:
    if "trained_shapes" not in inputs.plan.features:
        return ()
    # It reads prompts as the local model does, which a session without training files does not load.
    from pytest_crucible.features.run_checks.training_prompts import check_training_prompts

    return check_training_prompts(inputs)


def _check_renderers(inputs: CheckInputs) -> Iterable[Finding]:
    if "renderers" not in inputs.plan.features:
        return ()
    # The module is loaded where an arm names a renderer.
    from pytest_crucible.features.run_checks.renderers import check_renderers

    return check_renderers(inputs)


def _check_sampler_drift(inputs: CheckInputs) -> Iterable[Finding]:
    if "sampler_drift" not in inputs.section.scores:
        return ()
    # The module is loaded where the metric was scored.
    from pytest_crucible.features.run_checks.sampler_drift import check_sampler_drift

    return check_sampler_drift(inputs)


Check = Callable[[CheckInputs], Iterable[Finding]]
CHECKS: tuple[Check, ...] = (
    *(check_sent, check_answered, _check_equal_replies, check_determinism),
    *(
        _check_competitors,
        check_prompts,
        _check_training_prompts,
        _check_renderers,
        _check_sampler_drift,
        check_refreshed,
        check_judges,
        check_reasoning,
        check_ends,
    ),
)
"""All checks, in the order of their lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """A finding with its severity; without a problem it is a note."""

    finding: Finding
    severity: Severity

    @property
    def is_quiet(self) -> bool:
        return self.severity == "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The findings of all checks of one experiment."""

    arms: tuple[str, ...]
    findings: tuple[Rated, ...]


def compute(inputs: SectionInputs) -> Measured | None:
    """Return the findings of all checks; None where nothing is known of what was sent and answered."""
    columns = tuple(
        ArmColumns(arm=arm, calls=inputs.stored.calls(number), replies=inputs.stored.reply_columns(number))
        for number, arm in enumerate(inputs.plan.arms)
    )
    own = OWN_SEVERITIES.of(inputs.plan)
    checked = CheckInputs(section=inputs, arms=columns)
    findings = tuple(_rate(finding, own) for check in CHECKS for finding in check(checked))
    return Measured(arms=tuple(arm.name for arm in inputs.plan.arms), findings=findings) if findings else None


def _rate(finding: Finding, own: Mapping[str, str]) -> Rated:
    usual = finding.severity or SEVERITIES[finding.check]
    severity = cast(Severity, own.get(finding.check, usual)) if finding.problem else "note"
    return Rated(finding=finding, severity=severity)


claims = no_claims


def doubts(measured: Measured) -> Iterator[Doubt]:
    """Yield the problems by which the session fails."""
    reasons: dict[str, list[str]] = {}
    for rated in measured.findings:
        if rated.severity == "fail":
            reasons.setdefault(rated.finding.check, []).append(rated.finding.problem)
    for check, problems in reasons.items():
        more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
        yield Doubt(subject=f"what was measured ({check})", reason=problems[0] + more)


def remarks(measured: Measured) -> dict[str, str]:
    """Return what findings say about verdicts, by the verdict's subject."""
    of_all: dict[str, str] = {}
    for rated in measured.findings:
        for subject, sentence in (rated.finding.remarks or {}).items():
            of_all[subject] = "; ".join(filter(None, (of_all.get(subject, ""), sentence)))
    return of_all


def view(measured: Measured, claims: Sequence[Claim]) -> View:
    """Return the table of all findings: before the verdicts if one is a problem, else with -v, and a sentence after them."""
    loud = [rated for rated in measured.findings if not rated.is_quiet]
    rows = tuple(_row(rated) for rated in _merge_lines(measured.findings))
    table = Table(
        title="What was measured",
        heads=("what was measured", *measured.arms, "remark"),
        rows=rows,
        verbosity=0 if loud else 1,
    )
    return View(
        title="What was measured",
        tables=(table,),
        notes=tuple(Note(text=rated.finding.problem) for rated in loud) or _summary(measured),
        is_first=bool(loud),
        document=[
            {**pick(rated.finding, "check cells differs problem"), "severity": rated.severity}
            | {"numbers": rated.finding.document}
            for rated in measured.findings
        ],
    )


def measured_checks(analysis: Analysis) -> Iterator[ReproductionCheck]:
    """Yield a check for each problem of an experiment; or one that says what was measured."""
    outcome = analysis.sections.get("run_checks")
    if outcome is None or not isinstance(outcome.result, Measured):
        return
    # Imported here: `crucible doctor` alone checks whether a run can be reproduced.
    from pytest_crucible.runs.reproduction import ReproductionCheck

    subject = f"{analysis.plan.nodeid}: what was measured"
    problems = [rated.finding.problem for rated in outcome.result.findings if not rated.is_quiet]
    yield from (ReproductionCheck(subject, False, problem) for problem in problems)
    if not problems:
        yield from (ReproductionCheck(subject, True, note.text) for note in _summary(outcome.result))


def _summary(measured: Measured) -> tuple[Note, ...]:
    """Return one sentence on arms whose measurement is as it should be; none where only their replies are known."""
    findings = [rated.finding for rated in _merge_lines(measured.findings)]
    if not {finding.check for finding in findings} & {"sent", "answered by"}:
        return ()
    return (Note(text="; ".join(_phrase(finding, measured.arms) for finding in findings if any(finding.cells))),)


def _phrase(finding: Finding, arms: Sequence[str]) -> str:
    """Return `sent temperature 0`, or `answered by m2 (v2), m1 (v1)` where arms differ, or are unknown."""
    cells = [(cell, arm) for cell, arm in zip(finding.cells, arms, strict=True) if cell]
    # The cell of a baseline has its replies that are equal to the candidate's, which has none.
    is_of_all = len(cells) == len(arms) or (finding.check == "equal replies" and len(arms) == 2)
    if len({cell for cell, _ in cells}) == 1 and is_of_all:
        return f"{finding.check} {cells[0][0]}" + (f" ({finding.differs})" if finding.differs else "")
    described = f"{finding.check} {', '.join(f'{cell} ({arm})' for cell, arm in cells)}"
    return f"{described}, {finding.differs}" if finding.differs else described


def _merge_lines(findings: Iterable[Rated]) -> list[Rated]:
    """Return the findings with those of one check in one line, where each is about other arms and remarks the same."""
    lines: list[Rated] = []
    for rated in findings:
        if lines and _is_of_other_arms(lines[-1].finding, rated.finding):
            lines.append(_merge(lines.pop(), rated))
        else:
            lines.append(rated)
    return lines


def _is_of_other_arms(first: Finding, second: Finding) -> bool:
    shared = any(ours and theirs for ours, theirs in zip(first.cells, second.cells, strict=True))
    return first.check == second.check and not shared and len({first.differs, second.differs} - {""}) < 2


def _merge(first: Rated, second: Rated) -> Rated:
    cells = zip(first.finding.cells, second.finding.cells, strict=True)
    finding = replace(
        first.finding,
        cells=tuple(ours or theirs for ours, theirs in cells),
        differs=first.finding.differs or second.finding.differs,
    )
    return Rated(finding=finding, severity="fail" if "fail" in (first.severity, second.severity) else first.severity)


def _row(rated: Rated) -> Row:
    finding = rated.finding
    return Row(
        cells=(finding.check, *finding.cells, finding.differs), state="missed" if rated.severity == "fail" else None
    )
