"""What a run comes to, as tables of finished cells. Every report shows these, so that no number is formatted twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_crucible.numerals import p_value, with_interval
from pytest_crucible.records import Analysis, Comparison, Estimate, Run, State, TargetResult, Verdict
from pytest_crucible.report.sentences import estimated

NUMBERS = frozenset(
    {"n", "lost", "pairs", "requests", "tokens in", "out", "cost", "latency p50", "p95", "answers/s"}
    | {"HIGH", "MEDIUM", "LOW", "explained", "found", "labelled"}
)
"""Heads of columns that hold one number a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table: whose it is, its cells, what was ruled (if anything was), and what stands below it."""

    experiment: str
    cells: tuple[str, ...]
    state: State | None = None
    below: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table. The first column names what a row is about."""

    heads: tuple[str, ...]
    rows: tuple[Row, ...]

    def is_number(self, column: int) -> bool:
        """Whether a column holds single numbers, which stand to the right; one with intervals does not."""
        head = self.heads[column]
        single = not any(row.cells[column].endswith("]") for row in self.rows)
        return single and (head in NUMBERS or head.startswith("p (") or head == "p")

    def with_names(self) -> Grid:
        """The same, with the experiment's name as the first column."""
        rows = (Row(experiment=r.experiment, cells=(named(r.experiment), *r.cells), state=r.state, below=r.below)
                for r in self.rows)  # fmt: skip
        return Grid(heads=("experiment", *self.heads), rows=tuple(rows))


def named(nodeid: str) -> str:
    """An experiment by the name of its function."""
    return nodeid.partition("::")[2]


def targets(run: Run) -> Grid:
    """Target, estimate with interval, n, lost, verdict."""
    verdicts = _verdicts(run)
    rows = [_target_row(analysis, one, verdicts) for analysis in run.experiments for one in analysis.targets]
    return Grid(heads=("target", f"estimate {_interval(run)}", "n", "lost", "verdict"), rows=tuple(rows))


def comparisons(run: Run) -> Grid:
    """Comparison, difference with interval, n, lost, adjusted p, verdict."""
    verdicts = _verdicts(run)
    corrected = "p" if run.questions == 1 else f"p (Holm, {run.questions})"
    rows = [_pair_row(analysis, one, verdicts) for analysis in run.experiments for one in analysis.comparisons]
    heads = ("comparison", f"difference {_interval(run)}", "n", "lost", corrected, "verdict")
    return Grid(heads=heads, rows=tuple(rows))


def estimates(analyses: Sequence[Analysis]) -> Grid:
    """Every metric of every arm, judged or not, with its method."""
    rows = [
        Row(experiment=analysis.plan.nodeid, cells=_estimate_cells(one))
        for analysis in analyses
        for one in analysis.estimates
    ]
    return Grid(heads=("metric", "statistic", "arm", "estimate", "n", "lost", "method"), rows=tuple(rows))


def _interval(run: Run) -> str:
    return f"[{(1 - run.alpha) * 100:g} % interval]"


def _verdicts(run: Run) -> dict[tuple[str, str], Verdict]:
    return {(one.nodeid, one.subject): one for one in run.verdicts}


def _target_row(analysis: Analysis, one: TargetResult, verdicts: dict[tuple[str, str], Verdict]) -> Row:
    nodeid, estimate = analysis.plan.nodeid, one.estimate
    verdict = verdicts[nodeid, one.target.text]
    cells = (one.target.text, estimated(estimate), f"{estimate.n:,}", f"{estimate.lost:,}", _ruling(verdict, analysis))
    says_all = (verdict.state == "met" and verdict.proven) or is_of_training(one)
    return Row(experiment=nodeid, cells=cells, state=verdict.state, below="" if says_all else verdict.reason)


def _pair_row(analysis: Analysis, one: Comparison, verdicts: dict[tuple[str, str], Verdict]) -> Row:
    nodeid, subject = analysis.plan.nodeid, one.contrast.subject(one.candidate)
    verdict = verdicts[nodeid, subject]
    shown = with_interval(one.difference, one.interval, sign=True)
    cells = (subject, shown, f"{one.pairs:,}", f"{one.lost:,}", _p(one), _ruling(verdict, analysis))
    return Row(experiment=nodeid, cells=cells, state=verdict.state, below=verdict.reason)


def _p(one: Comparison) -> str:
    """The p-value that decides. With a margin the bounds do, and the p-value of no difference would only mislead."""
    return "-" if one.contrast.margin is not None else p_value(one.p_adjusted)


def _ruling(verdict: Verdict, analysis: Analysis) -> str:
    """`met, proven`. What no model answered is said to be simulated wherever it is said to be met."""
    simulated = any(arm.simulated for arm in analysis.plan.arms)
    return verdict.state + (", proven" if verdict.proven else "") + (" (simulated)" if simulated else "")


def is_of_training(one: TargetResult) -> bool:
    """A number of a training that is known."""
    return one.estimate.statistic == "training" and one.estimate.value is not None


def _estimate_cells(one: Estimate) -> tuple[str, ...]:
    shown = with_interval(one.value, one.interval)
    return one.metric, one.statistic, one.arm, shown, f"{one.n:,}", f"{one.lost:,}", one.method
