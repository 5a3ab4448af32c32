"""Checks of the members of a family that competed for the place of the candidate, on the samples that chose it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from pytest_crucible.analyse.analysis import AnalysisInputs, arm_scores
from pytest_crucible.features.run_checks.answered import check_answered
from pytest_crucible.features.run_checks.equal_replies import check_equal_replies
from pytest_crucible.features.run_checks.finding import SEVERITIES, ArmColumns, CheckInputs, Finding
from pytest_crucible.features.run_checks.sent import check_sent
from pytest_crucible.records.plan import HelperReplies
from pytest_crucible.sections.inputs import StoredDetails

CHECKS: tuple[Callable[[CheckInputs], Iterable[Finding]], ...] = (check_sent, check_answered, check_equal_replies)


def check_competitors(
    inputs: CheckInputs, competitions: Iterable[tuple[HelperReplies, StoredDetails]]
) -> Iterator[Finding]:
    """Yield one problem of each check of the members among which the candidate was chosen."""
    for replies, stored in competitions:
        members = member_inputs(inputs, replies, stored)
        for check in CHECKS:
            problems = [each for each in check(members) if each.problem and each.severity != "note"]
            # Of many members that are one, each pair has a problem.
            worst = sorted(problems, key=lambda each: (each.severity or SEVERITIES[each.check]) != "fail")
            if worst:
                yield _of_candidate(worst[0], len(worst) - 1, len(inputs.arms))


def _of_candidate(finding: Finding, others: int, arms: int) -> Finding:
    more = f" (and {others:,} more)" if others else ""
    return replace(
        finding,
        cells=("where it was chosen", *[""] * (arms - 1)),
        problem=f"of the members that competed: {finding.problem}{more}",
    )


def member_inputs(inputs: CheckInputs, replies: HelperReplies, stored: StoredDetails) -> CheckInputs:
    """Return the inputs of the checks of all members, with the verdicts' metrics on the choosing samples."""
    # The choice has no verdicts of its own.
    plan = replace(replies.plan, targets=inputs.plan.targets, contrasts=inputs.plan.contrasts)
    table = AnalysisInputs(
        plan=plan, answers=replies.answers, groups=replies.groups, finished=True, known_kinds=replies.known_kinds
    )
    names = {declared.metric for declared in (*plan.targets, *plan.contrasts)} & inputs.section.facts.keys()
    scores = {
        name: tuple(arm_scores(inputs.section.facts[name], table, number) for number in range(len(plan.arms)))
        for name in names
        if all(name in arm.scores for arm in replies.answers)
    }
    section = replace(inputs.section, plan=plan, groups=replies.groups, scores=scores, stored=stored)
    columns = tuple(
        ArmColumns(arm=arm, calls=stored.calls(number), replies=stored.reply_columns(number))
        for number, arm in enumerate(plan.arms)
    )
    return CheckInputs(section=section, arms=columns)
