"""What changes how the numbers are read, a sentence each: losses, the arms' own failures, and answers that are not new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_crucible.numerals import counted
from pytest_crucible.records import Analysis, Arm, Estimate, Run
from pytest_crucible.report.drifts import drift_lines
from pytest_crucible.report.grids import is_of_training, named
from pytest_crucible.report.printable import printable

_HOW = {
    "error": "by error",
    "scorer": "by a scorer",
    "member": "of a member's scores",
    "budget": "by the budget",
    "deadline": "by the deadline",
    "uncached": "not in the reply cache",
    "unasked": "not asked",
    "assertion": "by assertion",
    "timeout": "by timeout",
    "truncated": "by truncation",
    "filtered": "by a content filter",
}


def remarks(run: Run) -> Iterator[str]:
    """What changes how the numbers are read: losses, the arms' own failures, and answers that are not new."""
    reasons = {verdict.reason for verdict in run.verdicts}  # these stand in the tables already
    for analysis in run.experiments:
        name = named(analysis.plan.nodeid)
        for arm in analysis.plan.arms:
            yield from _counted(f"{name}: {arm.name} lost", analysis.lost[arm.name])
            yield from (f"    first: {printable(said, 200)}" for said in analysis.first_lost.get(arm.name, {}).values())
            yield from _counted(f"{name}: {arm.name} failed", analysis.failures[arm.name])
            yield from _reused(analysis, arm, name)
            yield from _from_cache(analysis, arm, name)
        yield from drift_lines(analysis)
        if any(map(is_of_training, analysis.targets)) and (candidate := analysis.plan.candidate).training is not None:
            steps = counted(candidate.training.training_steps, "step")
            yield f"{name}: {candidate.name} was trained once, in {steps}: another seed may give other numbers"
        notes = dict.fromkeys(one.note for one in analysis.comparisons if one.note and one.note not in reasons)
        yield from (f"{name}: {note}" for note in notes)
        of_ensembles = {facts.name for facts in analysis.plan.metrics if facts.of_ensemble}
        for one in analysis.estimates:
            if one.inapplicable and one.metric not in of_ensembles:
                share = f"{one.inapplicable:,} of {analysis.plan.selected:,} samples"
                yield f"{name}: {one.metric} of {one.arm} does not apply to {share}{_unconditional(one)}"


def _counted(what: str, counts: Mapping[str, int]) -> Iterator[str]:
    if counts:
        yield f"{what} {', '.join(f'{count:,} {_HOW.get(reason, reason)}' for reason, count in sorted(counts.items()))}"


def _reused(analysis: Analysis, arm: Arm, name: str) -> Iterator[str]:
    """Answers that are not new; what was named as a stored run says so itself."""
    reused = analysis.reused.get(arm.name)
    if reused is None or arm.stored_run is not None:
        return
    total = analysis.plan.selected * analysis.plan.epochs
    how = "; --crucible-fresh asks anew" if arm.role == "baseline" else ""
    yield f"{name}: {reused.answers:,} of {total:,} answers of {arm.name} are those of run {reused.run}{how}"


def _from_cache(analysis: Analysis, arm: Arm, name: str) -> Iterator[str]:
    """Replies that were paid for before: what they took is not what they would take today."""
    cached = analysis.from_cache.get(arm.name)
    if cached is not None:
        yield (
            f"{name}: {cached.replies:,} of {cached.requests:,} replies of {arm.name} are from the reply cache (since "
            f"{cached.since[:10]}), with the latency and cost of then; --crucible-cache=refresh asks anew"
        )


def _unconditional(one: Estimate) -> str:
    return (
        ""
        if one.unconditional is None or not one.n
        else f"; with them at the worst value its mean is {one.unconditional:.3f}"
    )
