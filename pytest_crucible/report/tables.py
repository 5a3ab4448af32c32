"""The tables of a run: targets, comparisons, claims and estimates, with aligned numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_crucible.records import (
    Analysis,
    Claim,
    Comparison,
    Estimate,
    Row,
    Run,
    Table,
    TargetResult,
    Verdict,
)
from pytest_crucible.report.verdict_text import difference_text, estimate_text, find_claim
from pytest_crucible.stats.number_format import p_value, with_interval


def targets(run: Run) -> Table:
    """Return the table of targets: target, estimate with interval, n, lost, verdict."""
    verdicts = _verdicts(run)
    rows = [_target_row(analysis, result, verdicts) for analysis in run.experiments for result in analysis.targets]
    heads = ("target", f"estimate {_interval(run)}", "n", "lost", "verdict")
    return Table(title="Quality targets", heads=heads, rows=tuple(rows), numbers=("n", "lost"))


def comparisons(run: Run) -> Table:
    """Return the table of comparisons: comparison, difference with interval, n, lost, p, verdict."""
    verdicts = _verdicts(run)
    pairs = [(analysis, comparison) for analysis in run.experiments for comparison in analysis.comparisons]
    # Where all have margins, the column shows no p-value.
    has_p = any(comparison.contrast.shares_alpha for _, comparison in pairs)
    p_head = _p_head(run) if has_p else "p"
    # An interval at 95 % may exclude 0 where the adjusted p-value beside it proves nothing.
    mark = ", unadjusted" if has_p and run.family_size > 1 else ""
    rows = [_pair_row(*pair, verdicts) for pair in pairs]
    heads = ("comparison", f"difference {_interval(run, mark)}", "n", "lost", p_head, "verdict")
    title = "Comparisons of the candidate with its baselines"
    return Table(title=title, heads=heads, rows=tuple(rows), numbers=("n", "lost", p_head))


def claims(run: Run) -> Table:
    """Return the table of the sections' claims that can fail the session: claim, p, verdict."""
    analyses = {analysis.plan.nodeid: analysis for analysis in run.experiments}
    # Claims share alpha with the comparisons, so their p-values are adjusted in the same family.
    head = _p_head(run)
    rows = [
        Row(
            experiment=verdict.nodeid,
            cells=(
                verdict.subject,
                _claim_p(find_claim(verdict, analyses[verdict.nodeid])),
                _ruling(verdict, analyses[verdict.nodeid]),
            ),
            state=verdict.state,
            below=verdict.reason,
        )
        for verdict in run.verdicts
        if verdict.kind == "claim"
    ]
    return Table(title="Claims", heads=("claim", head, "verdict"), rows=tuple(rows), numbers=(head,))


def verdict_tables(run: Run) -> tuple[Table, ...]:
    """Return the tables that have verdicts, those without rows left out."""
    return tuple(table for table in (targets(run), comparisons(run), claims(run)) if table.rows)


def _p_head(run: Run) -> str:
    """Return `p`, with the correction where there was something to correct for."""
    return f"p (Holm, {run.family_size})" if run.family_size > 1 else "p"


def _claim_p(claim: Claim | None) -> str:
    return "-" if claim is None else p_value(claim.p_adjusted)


def estimates(analyses: Sequence[Analysis]) -> Table:
    """Return the table of estimates: every metric of every arm, with or without a target, and its method."""
    rows = [
        Row(experiment=analysis.plan.nodeid, cells=_estimate_cells(estimate))
        for analysis in analyses
        for estimate in analysis.estimates
    ]
    heads = ("metric", "statistic", "arm", "estimate", "n", "lost", "method")
    return Table(title="Estimates", heads=heads, rows=tuple(rows), numbers=("n", "lost"))


def _interval(run: Run, mark: str = "") -> str:
    return f"[{(1 - run.alpha) * 100:g} % interval{mark}]"


def _verdicts(run: Run) -> dict[tuple[str, str], Verdict]:
    return {(verdict.nodeid, verdict.subject): verdict for verdict in run.verdicts}


def _target_row(analysis: Analysis, result: TargetResult, verdicts: dict[tuple[str, str], Verdict]) -> Row:
    nodeid, estimate = analysis.plan.nodeid, result.estimate
    verdict = verdicts[nodeid, result.target.text]
    cells = (
        result.target.text,
        estimate_text(estimate),
        f"{estimate.n:,}",
        f"{estimate.lost:,}",
        _ruling(verdict, analysis),
    )
    # A proven verdict, and the number of one training, need no sentence below the row.
    is_known = estimate.is_known and estimate.value is not None and estimate.interval is None
    is_proven = verdict.state == "met" and verdict.proven and not estimate.is_known
    says_all = is_proven or is_known
    return Row(experiment=nodeid, cells=cells, state=verdict.state, below="" if says_all else verdict.reason)


def _pair_row(analysis: Analysis, comparison: Comparison, verdicts: dict[tuple[str, str], Verdict]) -> Row:
    nodeid, subject = analysis.plan.nodeid, comparison.contrast.subject(comparison.candidate)
    verdict = verdicts[nodeid, subject] if comparison.contrast.decides else None
    difference = difference_text(comparison)
    cells = (
        subject,
        difference,
        f"{comparison.pairs:,}",
        f"{comparison.lost:,}",
        _p(comparison),
        _ruling(verdict, analysis) if verdict else "none",
    )
    if verdict is None:
        return Row(experiment=nodeid, cells=cells, below=_no_direction(comparison.contrast.metric))
    return Row(experiment=nodeid, cells=cells, state=verdict.state, below=verdict.reason)


def _no_direction(metric: str) -> str:
    """Return why a comparison has no verdict, and how to get one."""
    return f"nothing shows which direction is better: --metric {metric}:higher or --metric {metric}:lower does"


def _p(comparison: Comparison) -> str:
    """Return the p-value that decides, a dash where bounds do."""
    # With a margin the bounds decide, and the p-value of no difference would only mislead.
    return "-" if comparison.contrast.margin is not None else p_value(comparison.p_adjusted)


def _ruling(verdict: Verdict, analysis: Analysis) -> str:
    """Return a verdict such as `met, proven`, marked as simulated when a script answered."""
    simulated = any(arm.simulated for arm in analysis.plan.arms)
    state = "error in the suite" if verdict.suite_error else verdict.state
    return state + (", proven" if verdict.proven else "") + (" (simulated)" if simulated else "")


def _estimate_cells(estimate: Estimate) -> tuple[str, ...]:
    value = with_interval(estimate.value, estimate.interval)
    return (
        estimate.metric,
        estimate.statistic,
        estimate.arm,
        value,
        f"{estimate.n:,}",
        f"{estimate.lost:,}",
        estimate.method,
    )


_ESTIMATE = re.compile(r"(\S+) \[(?:([^\s,]\S*), (\S+)|(.+))\]")
# Blanks as wide as a digit and as a decimal point: ordinary blanks are narrower in proportional fonts.
DIGIT, POINT = "\u2007", "\u2008"


def align_estimates(cells: Sequence[str]) -> list[tuple[str, str]]:
    """Return each cell as its number and its interval, padded so that decimal points are aligned.

    >>> align_estimates(["0.5 [0.25, 0.75]", "-10.25 [no interval]"])[0][0] == DIGIT * 2 + "0.5" + DIGIT
    True
    """
    matches = [_ESTIMATE.fullmatch(cell) for cell in cells]
    values = _columns([match[1] if match else "" for match in matches])
    lows = _columns([(match[2] or "") if match else "" for match in matches])
    highs = _columns([(match[3] or "") if match else "" for match in matches])
    return [
        (typeset(cell), "") if match is None
        else (f"{before}{value}{after}", f"[{match[4]}]") if match[4]
        else (f"{before}{value}{after}", f"[{low[0]}{low[1]},{low[2]} {high[0]}{high[1]}]{high[2]}")
        for cell, match, (before, value, after), low, high in zip(cells, matches, values, lows, highs, strict=True)
    ]  # fmt: skip


def typeset(text: str) -> str:
    """Return the text with a leading hyphen as a minus sign, which is as wide as a plus."""
    return text.replace("-", "\u2212") if re.match(r"-[\d.i]", text) else text


def _columns(texts: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return each number with the blanks before and behind it."""
    parts = [text.partition(".") for text in texts]
    before = max((len(whole) for whole, _, _ in parts), default=0)
    after = max((len(decimals) for _, _, decimals in parts), default=0)
    return [
        (
            DIGIT * (before - len(whole)),
            typeset(text),
            ("" if point or not after else POINT) + DIGIT * (after - len(decimals)),
        )
        for text, (whole, point, decimals) in zip(texts, parts, strict=True)
    ]
