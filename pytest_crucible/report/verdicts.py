"""Verdicts and estimates in words and as tables, with aligned numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_crucible.records import Analysis, Claim, Comparison, Estimate, Row, Run, Table, TargetResult, Verdict
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.report.printable import printable
from pytest_crucible.stats.number_format import number, p_value, quantity, ratio_with_interval, with_interval


def sentence(verdict: Verdict, analysis: Analysis, family_size: int) -> str:
    """Return `missed: 0.347 [0.322, 0.373] n=1,319; one-sided bound 0.369 < target 0.80`.

    A p-value is called adjusted where the family has other members to adjust it for.
    """
    numbers = {"target": _target, "comparison": _comparison, "claim": _claim}[verdict.kind](
        verdict, analysis, "adjusted p" if family_size > 1 else "p"
    )
    simulated = " (simulated)" if any(arm.simulated for arm in analysis.plan.arms) else ""
    state = "error in the suite" if verdict.suite_error else verdict.state
    return f"{state}{simulated}: {'; '.join(part for part in (numbers, verdict.reason) if part)}"


def estimate_text(estimate: Estimate) -> str:
    """Return `0.563 [0.536, 0.589]`; of one training, whose number is known, `0.987 [one training]`."""
    if estimate.is_known and estimate.value is not None and estimate.interval is None:
        return f"{number(estimate.value)} [{estimate.method}]"
    return with_interval(estimate.value, estimate.interval)


def difference_text(comparison: Comparison) -> str:
    """Return `+0.128 [+0.078, +0.178]`, or of a ratio of candidate to baseline `1.17x [1.10, 1.25]`."""
    ratio, interval = comparison.ratio, comparison.interval
    # Two one-sided bounds at 5 % are an interval at 90 %, under a head that says 95 %.
    level = f" ({interval.level * 100:.4g} %)" if interval and comparison.contrast.decided_by_bounds else ""
    if ratio is None:
        return with_interval(comparison.difference, interval, sign=True) + level
    value, _, ends = ratio_with_interval(ratio.value, ratio.interval).partition(" ")
    return f"{value}x {ends}{level}"


def evidence(verdict: Verdict, analysis: Analysis) -> dict[str, float | int | None]:
    """Return estimate, low, high, n and lost of a verdict, and the p of a comparison; empty for an error in the suite."""
    if verdict.kind == "target":
        result = _target_result(verdict, analysis)
        if result is None:
            return {}
        estimate = result.estimate
        return {"estimate": estimate.value, **interval_ends(estimate.interval), "n": estimate.n, "lost": estimate.lost}
    if verdict.kind == "claim":
        claim = find_claim(verdict, analysis)
        return {} if claim is None else {"p_adjusted": claim.p_adjusted}
    pair = _find_comparison(verdict, analysis)
    if pair is None:
        return {}
    value, interval = (pair.ratio.value, pair.ratio.interval) if pair.ratio else (pair.difference, pair.interval)
    numbers = {"estimate": value, **interval_ends(interval), "n": pair.pairs, "lost": pair.lost}
    return {**numbers, "p_adjusted": pair.p_adjusted}


def _target(verdict: Verdict, analysis: Analysis, _: str) -> str:
    result = _target_result(verdict, analysis)
    # Of a training without a recorded number not even n is known.
    if result is None or (result.estimate.value is None and result.note):
        return ""
    replies = result.estimate.replies
    # n counts samples: without the replies a total of 6 would look like a share of them.
    words = result.estimate.uneven or ("" if replies is None else quantity(replies, "reply"))
    beside = f" ({words})" if words else ""
    return f"{estimate_text(result.estimate)} n={result.estimate.n:,}{beside}"


def _comparison(verdict: Verdict, analysis: Analysis, p_name: str) -> str:
    comparison = _find_comparison(verdict, analysis)
    if comparison is None:
        return ""
    p = f", {p_name} {p_value(comparison.p_adjusted)}" if comparison.contrast.shares_alpha else ""
    # An interval at 95 % may exclude 0 where the adjusted p-value proves nothing.
    p += " (interval unadjusted)" if p and p_name != "p" and comparison.interval is not None else ""
    return f"{difference_text(comparison)} n={comparison.pairs:,}{p}"


def _target_result(verdict: Verdict, analysis: Analysis) -> TargetResult | None:
    return next((result for result in analysis.targets if result.target.text == verdict.subject), None)


def _find_comparison(verdict: Verdict, analysis: Analysis) -> Comparison | None:
    subjects = {comparison.contrast.subject(comparison.candidate): comparison for comparison in analysis.comparisons}
    return subjects.get(verdict.subject)


def _claim(verdict: Verdict, analysis: Analysis, p_name: str) -> str:
    claim = find_claim(verdict, analysis)
    return "" if claim is None else f"{p_name} {p_value(claim.p_adjusted)}"


def find_claim(verdict: Verdict, analysis: Analysis) -> Claim | None:
    """Return the claim that a verdict is about; None if the section is unknown, or raised."""
    name, _, subject = verdict.subject.partition(": ")
    outcome = analysis.sections.get(name)
    return next((claim for claim in outcome.claims if claim.subject == subject), None) if outcome else None


def annotation_lines(run: Run, environment: Mapping[str, str], *, undecided_fails: bool) -> Iterator[str]:
    """Yield `::error file=...,line=...::...` for each verdict that fails the job.

    A verdict that is not met but does not fail it gives `::warning`. Outside GitHub Actions there are no lines.
    """
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    analyses = {analysis.plan.nodeid: analysis for analysis in run.experiments}
    for verdict in run.verdicts:
        if verdict.state != "met" or verdict.suite_error:
            plan = analyses[verdict.nodeid].plan
            fails = verdict.state == "missed" or verdict.suite_error or undecided_fails
            text = sentence(verdict, analyses[verdict.nodeid], run.family_size)
            message = _escape_message(f"{verdict.subject}: {printable(text)}")
            where = f"file={_property(plan.path)},line={plan.line + 1},title={_property(plan.nodeid)}"
            yield f"::{'error' if fails else 'warning'} {where}::{message}"


def _escape_message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    # A colon would end the properties of a workflow command, and a comma would start the next one.
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")


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
    rows = []
    for verdict in run.verdicts:
        if verdict.kind == "claim":
            analysis = analyses[verdict.nodeid]
            claim = find_claim(verdict, analysis)
            p = "-" if claim is None else p_value(claim.p_adjusted)
            cells = (verdict.subject, p, _ruling(verdict, analysis))
            rows.append(Row(experiment=verdict.nodeid, cells=cells, state=verdict.state, below=verdict.reason))
    return Table(title="Claims", heads=("claim", head, "verdict"), rows=tuple(rows), numbers=(head,))


def verdict_tables(run: Run) -> tuple[Table, ...]:
    """Return the tables that have verdicts, those without rows left out."""
    return tuple(table for table in (targets(run), comparisons(run), claims(run)) if table.rows)


def _p_head(run: Run) -> str:
    return f"p (Holm, {run.family_size})" if run.family_size > 1 else "p"


def estimates(analyses: Sequence[Analysis]) -> Table:
    """Return the table of estimates: every metric of every arm, with or without a target, and its method."""
    rows = []
    for analysis in analyses:
        for estimate in analysis.estimates:
            value = with_interval(estimate.value, estimate.interval)
            names = estimate.metric, estimate.statistic, estimate.arm
            cells = (*names, value, f"{estimate.n:,}", f"{estimate.lost:,}", estimate.method)
            rows.append(Row(experiment=analysis.plan.nodeid, cells=cells))
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
    cells = (
        subject,
        difference_text(comparison),
        f"{comparison.pairs:,}",
        f"{comparison.lost:,}",
        # With a margin the bounds decide, and the p-value of no difference would only mislead.
        "-" if comparison.contrast.margin is not None else p_value(comparison.p_adjusted),
        _ruling(verdict, analysis) if verdict else "none",
    )
    if verdict is None:
        option = f"--metric {comparison.contrast.metric}"
        below = f"nothing shows which direction is better: {option}:higher or {option}:lower does"
        return Row(experiment=nodeid, cells=cells, below=below)
    return Row(experiment=nodeid, cells=cells, state=verdict.state, below=verdict.reason)


def _ruling(verdict: Verdict, analysis: Analysis) -> str:
    """Return a verdict such as `met, proven`, marked as simulated when a script answered."""
    simulated = any(arm.simulated for arm in analysis.plan.arms)
    state = "error in the suite" if verdict.suite_error else verdict.state
    return state + (", proven" if verdict.proven else "") + (" (simulated)" if simulated else "")


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
    parts = [text.partition(".") for text in texts]
    # An end at infinity, which has no point, moves no number away from its neighbour.
    before = max((len(whole) for whole, _, _ in parts if not whole.endswith("inf")), default=0)
    after = max((len(decimals) for _, _, decimals in parts), default=0)
    return [
        (
            DIGIT * (before - len(whole)),
            typeset(text),
            ("" if point or not after else POINT) + DIGIT * (after - len(decimals)),
        )
        for text, (whole, point, decimals) in zip(texts, parts, strict=True)
    ]
