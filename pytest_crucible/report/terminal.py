"""A run as terminal lines: one table of targets, one of comparisons, and what needs saying about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tabulate import tabulate

from pytest_crucible.numerals import counted, p_value, with_interval
from pytest_crucible.records import Analysis, Arm, Comparison, Estimate, Run, TargetResult, Verdict
from pytest_crucible.report.diversity import diversity_lines
from pytest_crucible.report.drifts import drift_lines
from pytest_crucible.report.printable import printable
from pytest_crucible.report.sentences import estimated, sentence
from pytest_crucible.report.usage import percentile_lines, usage_lines

Markup = dict[str, bool]
A_SCREEN = 1200
"""Characters of a reply that are shown."""
_COLOURS: dict[str, Markup] = {
    "met": {"green": True},
    "missed": {"red": True, "bold": True},
    "undecided": {"yellow": True},
}


_HOW = {
    "error": "by error",
    "scorer": "by a scorer",
    "budget": "by the budget",
    "deadline": "by the deadline",
    "uncached": "not in the reply cache",
    "unasked": "not asked",
    "assertion": "by assertion",
    "timeout": "by timeout",
    "truncated": "by truncation",
    "filtered": "by a content filter",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line with its markup; colour only repeats what the words say."""

    text: str
    markup: Markup = field(default_factory=dict)


def summary(run: Run, *, verbosity: int, width: int) -> Iterator[Line]:
    """All lines of a run. -q: only what is not met. -v: also methods and losses. -vv: also the worst samples."""
    if verbosity < 0:
        yield from _short(run)
        return
    yield from _tables(run, width)
    yield from usage_table(run)
    yield from map(Line, _unjudged(run))
    yield from map(Line, _remarks(run))
    if verbosity >= 1:
        yield from map(Line, _details(run))
    if verbosity >= 2:
        yield from map(Line, _worst(run))


def _short(run: Run) -> Iterator[Line]:
    analyses = {analysis.plan.nodeid: analysis for analysis in run.experiments}
    for one in run.verdicts:
        if one.state != "met":
            yield Line(f"{one.nodeid}::{one.subject}: {sentence(one, analyses[one.nodeid])}", _COLOURS[one.state])


def _tables(run: Run, width: int) -> Iterator[Line]:
    verdicts = {(one.nodeid, one.subject): one for one in run.verdicts}
    interval = f"[{(1 - run.alpha) * 100:g} % interval]"
    targets = [_target_row(analysis, one, verdicts) for analysis in run.experiments for one in analysis.targets]
    pairs = [_pair_row(analysis, one, verdicts) for analysis in run.experiments for one in analysis.comparisons]
    many = len(run.experiments) > 1
    yield from _table(("target", f"estimate {interval}", "n", "lost", "verdict"), targets, many, width)
    corrected = "p" if run.questions == 1 else f"p (Holm, {run.questions})"
    yield from _table(("comparison", f"difference {interval}", "n", "lost", corrected, "verdict"), pairs, many, width)


def usage_table(run: Run) -> Iterator[Line]:
    """What it took to ask the arms."""
    lines = list(usage_lines(run))
    if lines:
        yield Line(lines[0], {"bold": True})
        yield from map(Line, [*lines[1:], ""])


Row = tuple[str, tuple[str, ...], Verdict, str]
"""Experiment, cells, verdict, and what stands below it."""


def _target_row(analysis: Analysis, one: TargetResult, verdicts: dict[tuple[str, str], Verdict]) -> Row:
    verdict, estimate = verdicts[analysis.plan.nodeid, one.target.text], one.estimate
    cells = (one.target.text, estimated(estimate), f"{estimate.n:,}", f"{estimate.lost:,}", _ruling(verdict, analysis))
    says_all = (verdict.state == "met" and verdict.proven) or _is_of_training(one)
    return analysis.plan.nodeid, cells, verdict, "" if says_all else verdict.reason


def _pair_row(analysis: Analysis, one: Comparison, verdicts: dict[tuple[str, str], Verdict]) -> Row:
    subject = one.contrast.subject(one.candidate)
    verdict = verdicts[analysis.plan.nodeid, subject]
    shown = with_interval(one.difference, one.interval, sign=True)
    cells = (subject, shown, f"{one.pairs:,}", f"{one.lost:,}", _p(one), _ruling(verdict, analysis))
    return analysis.plan.nodeid, cells, verdict, verdict.reason


def _p(one: Comparison) -> str:
    """The p-value that decides. With a margin the bounds do, and the p-value of no difference would only mislead."""
    return "-" if one.contrast.margin is not None else p_value(one.p_adjusted)


def _ruling(verdict: Verdict, analysis: Analysis) -> str:
    """`met, proven`. What no model answered is said to be simulated wherever it is said to be met."""
    simulated = any(arm.simulated for arm in analysis.plan.arms)
    return verdict.state + (", proven" if verdict.proven else "") + (" (simulated)" if simulated else "")


def _table(heads: Sequence[str], rows: Sequence[Row], many: bool, width: int) -> Iterator[Line]:
    """One table; with several experiments each one's rows stand under its name.

    Where a row does not fit into the terminal, its subject gets a line of its own.
    """
    if not rows:
        return
    text = _aligned(heads, [cells for _, cells, _, _ in rows])
    folded = max(map(len, text)) > width
    if folded:
        text = [f"  {line}" for line in _aligned(heads[1:], [cells[1:] for _, cells, _, _ in rows])]
    yield Line(f"{heads[0]}\n{text[0]}" if folded else text[0], {"bold": True})
    above = ""
    for line, (nodeid, cells, verdict, below) in zip(text[1:], rows, strict=True):
        if many and nodeid != above:
            yield Line(nodeid)
            above = nodeid
        yield Line(f"{cells[0]}\n{line}" if folded else line, _COLOURS[verdict.state])
        if below:
            yield Line(f"    {below}")
    yield Line("")


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Numbers to the right, words to the left."""
    align = ["right" if head in ("n", "lost") or head.startswith("p") else "left" for head in heads]
    # As a row of its own the head gets no padding for numbers that are not there.
    return tabulate([heads, *rows], tablefmt="plain", colalign=align, disable_numparse=True).splitlines()


def _unjudged(run: Run) -> Iterator[str]:
    """What was measured without a target or a comparison is shown all the same."""
    plain = [one for one in run.experiments if not (one.targets or one.comparisons)]
    lines = list(_estimates(plain, len(run.experiments) > 1))
    yield from [*lines, ""] if lines else []


def _remarks(run: Run) -> Iterator[str]:
    """What changes how the numbers are read: losses, the arms' own failures, and answers that are not new."""
    reasons = {verdict.reason for verdict in run.verdicts}  # these stand in the tables already
    for analysis in run.experiments:
        name = _name(analysis)
        for arm in analysis.plan.arms:
            yield from _counted(f"{name}: {arm.name} lost", analysis.lost[arm.name])
            yield from (f"    first: {printable(said, 200)}" for said in analysis.first_lost.get(arm.name, {}).values())
            yield from _counted(f"{name}: {arm.name} failed", analysis.failures[arm.name])
            yield from _reused(analysis, arm, name)
            yield from _from_cache(analysis, arm, name)
        yield from drift_lines(analysis)
        if any(map(_is_of_training, analysis.targets)) and (candidate := analysis.plan.candidate).training is not None:
            steps = counted(candidate.training.training_steps, "step")
            yield f"{name}: {candidate.name} was trained once, in {steps}: another seed may give other numbers"
        yield from (f"{name}: {one.note}" for one in analysis.comparisons if one.note and one.note not in reasons)
        of_ensembles = {facts.name for facts in analysis.plan.metrics if facts.of_ensemble}
        for one in analysis.estimates:
            if one.inapplicable and one.metric not in of_ensembles:
                share = f"{one.inapplicable:,} of {analysis.plan.selected:,} samples"
                yield f"{name}: {one.metric} of {one.arm} does not apply to {share}{_unconditional(one)}"


def _is_of_training(one: TargetResult) -> bool:
    """A number of a training that is known."""
    return one.estimate.statistic == "training" and one.estimate.value is not None


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


def _details(run: Run) -> Iterator[str]:
    """Every estimate with its method, and where all of it is kept."""
    yield from _estimates(run.experiments, len(run.experiments) > 1)
    for analysis in run.experiments:
        for pair in analysis.comparisons:
            exact = "" if pair.p_exact is None else f", exact p {p_value(pair.p_exact)}"
            subject = f"{_name(analysis)}: {pair.contrast.subject(pair.candidate)}"
            yield f"{subject}: {pair.method}, p {p_value(pair.p_value)}{exact}"
    yield from diversity_lines(run.experiments)
    yield from percentile_lines(run)
    yield f"run {run.id}, seed {run.seed}, in {run.store}"


def _estimates(analyses: Sequence[Analysis], many: bool) -> Iterator[str]:
    """All estimates in one table; with several experiments each row names its own."""
    heads = ["metric", "statistic", "arm", "estimate", "n", "method"]
    rows = [
        [*([_name(analysis)] if many else []), *_estimate_cells(one)]
        for analysis in analyses
        for one in analysis.estimates
    ]
    if rows:
        yield from _aligned([*(["experiment"] if many else []), *heads], rows)


def _estimate_cells(one: Estimate) -> tuple[str, ...]:
    shown = with_interval(one.value, one.interval)
    return one.metric, one.statistic, one.arm, shown, f"{one.n:,}", one.method


def _name(analysis: Analysis) -> str:
    return analysis.plan.nodeid.partition("::")[2]


def _worst(run: Run) -> Iterator[str]:
    """The worst samples, with what the candidate said."""
    for analysis in run.experiments:
        for one in analysis.worst:
            was = "" if one.baseline_value is None else f", baseline {one.baseline_value:g}"
            yield f"{analysis.plan.nodeid}  {printable(one.sample, A_SCREEN)}: {one.metric} = {one.value:g}{was}"
            yield from (f"    {line}" for line in printable(one.reply, A_SCREEN).split("\n")[:12])
