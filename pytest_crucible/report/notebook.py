"""A report as a Jupyter notebook (extra `notebook`) that computes each number again from the stored replies."""

from __future__ import annotations

import json
import pprint
from collections.abc import Iterator
from typing import Any

from pytest_crucible.records import Row, Run, Table
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.markdown import markdown_table, plain
from pytest_crucible.report.model import Report, build_report
from pytest_crucible.report.tables import comparisons, targets
from pytest_crucible.stats.number_format import p_value

try:
    from nbformat import v4, writes
except ModuleNotFoundError as error:
    raise SpecError(
        'notebooks need nbformat, which is not installed: pip install "pytest-crucible[notebook]"'
    ) from error

_READ = '''
import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.comparisons import compare
from pytest_crucible.analyse.scores import Scores, Units
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric, estimate_values, row_of
from pytest_crucible.report.verdict_text import difference_text
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.reporters import chapters
from pytest_crucible.stats.number_format import number, p_value, with_interval
from pytest_crucible.stats.resampling.draws import MonteCarlo, hash_ids
from pytest_crucible.store.runs import RunStore

store = RunStore(STORE)
run = load_run(store, RUN)
store.close()
with chapters(run) as found:  # scores of every sample: repeats averaged, failures at the worst value, lost ones NaN
    experiments = {one.analysis.plan.nodeid: one for one in found}


def scores(experiment, metric, arm):
    return np.array(experiments[experiment].columns.scores[metric][experiments[experiment].arms.index(arm)])


def values_of(experiment, measure, arm, kept):
    """The measure's metrics, one value a sample; of a rate, a percentile or a count all replies, where a sample has several."""
    chapter = experiments[experiment]
    replies = chapter.columns.replies if row_of(measure).of_replies else {}
    columns = [replies.get(name) or chapter.columns.scores[name] for name in measure.metrics]
    return [np.array(column[chapter.arms.index(arm)])[kept] for column in columns]


def scored(experiment, contrast, arm, kept):
    """The contrast's metrics with one value a sample, and with all replies where a sample has several."""
    chapter, none = experiments[experiment], np.zeros(kept.sum(), dtype=bool)
    scored_metrics = []
    for name in contrast.metrics:
        values, units = scores(experiment, name, arm)[kept], None
        if name in chapter.columns.replies:
            k = chapter.arms.index(arm)
            replies = np.array(chapter.columns.replies[name][k])[kept].reshape(-1, *chapter.analysis.plan.draws(k))
            units = Units(replies, replies, replies, np.zeros(replies.shape, dtype=bool))
        scored_metrics.append(ScoredMetric(chapter.facts[name], Scores(values, values, values, none, none, units)))
    return scored_metrics


def attributes(experiment, kept):
    """What else a comparison uses: groups, expected values, and for permutation tests the samples' ids and the run's seed."""
    chapter = experiments[experiment]
    return SampleAttributes(
        groups(experiment, kept), expected(experiment, kept), random_factors=chapter.analysis.plan.random_factors,
        keys=hash_ids(chapter.columns.ids)[kept], monte_carlo=MonteCarlo(seed=run.seed),
    )


def shape(experiment, metric):
    """What was declared about a metric."""
    facts = experiments[experiment].facts[metric]
    return {"kind": facts.kind, "bounds": (facts.low, facts.high)}


def groups(experiment, kept):
    labels = experiments[experiment].clusters
    return None if labels is None else labels[kept]


def expected(experiment, kept):
    """The samples' expected values, where a statistic uses them."""
    values = experiments[experiment].columns.expected
    return [value for value, keep in zip(values, kept, strict=True) if keep] if len(values) else ()


def check(name, derived, reported):
    assert derived == reported, f"{name}: {derived} is not {reported}"
    print(f"{name:60} {derived}")
'''
_ESTIMATES = """
for experiment, metric, arm, reported in REPORTED["estimates"]:
    values = scores(experiment, metric, arm)
    seen = ~np.isnan(values)
    if seen.any():
        one = stats.estimate(values[seen], clusters=groups(experiment, seen), alpha=ALPHA, **shape(experiment, metric))
        shown = with_interval(one.estimate, one.interval)
    else:
        shown = number(None)
    check(f"{metric} of {arm}", f"{shown} n={seen.sum():,}", reported)
"""
_TARGETS = """
for experiment, k, reported in REPORTED["targets"]:
    chapter = experiments[experiment]
    target, facts = chapter.analysis.targets[k].target, chapter.facts
    values = np.array([scores(experiment, name, chapter.arms[0]) for name in target.metrics])
    seen = ~np.isnan(values).any(axis=0)
    one = estimate_values(
        target, [facts[name] for name in target.metrics], values_of(experiment, target, chapter.arms[0], seen),
        groups(experiment, seen), level=1 - ALPHA, expected=expected(experiment, seen),
    )
    check(target.text, f"{with_interval(one.value, one.interval)} n={seen.sum():,}", reported)
"""
_COMPARISONS = """
p_values, proofs = [], []  # that the arms are alike, and of the bounds
for experiment, k, reported in REPORTED["comparisons"]:
    chapter = experiments[experiment]
    contrast = chapter.analysis.comparisons[k].contrast
    arms = chapter.arms[0], contrast.baseline
    pair = [np.array([scores(experiment, name, arm) for name in contrast.metrics]) for arm in arms]
    both = ~np.isnan(pair).any(axis=(0, 1))
    one = compare(  # a positive difference is an improvement
        contrast, arms[0], tuple(scored(experiment, contrast, arm, both) for arm in arms), attributes(experiment, both),
        alpha=ALPHA, family_size=FAMILY_SIZE,
    )
    p_values.append(one.p_value if contrast.shares_alpha else None)
    proofs.append(one.proof_p if contrast.shares_alpha else None)
    check(f"{contrast.expression}: {arms[0]} vs {arms[1]}", f"{difference_text(one)} n={both.sum():,}", reported)

for family, name in ((p_values + CLAIMS, "p"), (proofs, "proof")):
    adjusted = stats.holm(family, family_size=FAMILY_SIZE)
    assert [p_value(one) for one in adjusted][: len(REPORTED[name])] == REPORTED[name]
"""


def render_notebook(run: Run) -> str:
    """Return a run as a notebook. Raises SpecError if nbformat is not installed."""
    report = build_report(run)
    cells = [
        v4.new_markdown_cell(_head(report)),
        v4.new_code_cell(_constants(report)),
        v4.new_markdown_cell("## Stored replies"),
        v4.new_code_cell(_READ.strip()),
        v4.new_markdown_cell("## Estimates"),
        v4.new_code_cell(_ESTIMATES.strip()),
        v4.new_markdown_cell("## Targets"),
        v4.new_code_cell(_TARGETS.strip()),
        v4.new_markdown_cell("## Comparisons"),
        v4.new_code_cell(_COMPARISONS.strip()),
        *(v4.new_markdown_cell(text) for text in _sections(report)),
        v4.new_markdown_cell(
            "## Methods\n\n" + "\n".join(f"- {plain(statement.text)}" for statement in report.methods)
        ),
    ]
    # nbformat gives random ids: two notebooks of one run would differ.
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return str(writes(v4.new_notebook(cells=cells, metadata=_METADATA))) + "\n"


_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def _head(report: Report) -> str:
    lines = [f"# Run {report.run.id}", "", f"**{plain(report.headline)}**", ""]
    for grid in report.verdicts:
        lines += [f"- {plain(row.cells[0])}: {_verdict(grid, row)}" for row in grid.rows]
    return "\n".join(
        [*lines, "", "Every number below is computed again from the run store; a cell fails if one differs."]
    )


def _verdict(table: Table, row: Row) -> str:
    """Return the number, n and verdict of a row; a claim has a p-value alone."""
    number = f"{row.cells[1]}, n={row.cells[2]}" if "n" in table.heads else f"p {row.cells[1]}"
    return f"{plain(number)}, **{plain(row.cells[-1])}**"


def _sections(report: Report) -> Iterator[str]:
    """Yield the tables of each section as they are: their numbers are not computed again."""
    many = len(report.run.experiments) > 1
    for section in report.sections:
        tables = ("\n".join(markdown_table(table, many=many)) for table in section.tables)
        yield "\n\n".join([f"## {plain(section.title)}", *tables])
    if report.remarks:
        yield "## Notes\n\n" + "\n".join(f"- {plain(remark)}" for remark in report.remarks)


def _claims(run: Run) -> list[float | None]:
    claims = (
        claim for analysis in run.experiments for outcome in analysis.sections.values() for claim in outcome.claims
    )
    return [claim.p_value for claim in claims if claim.fails]


def _constants(report: Report) -> str:
    run = report.run
    return "\n".join(
        [
            f"STORE = {run.store!r}  # where the run store is now",
            f"RUN = {run.id!r}",
            f"ALPHA = {run.alpha!r}",
            f"FAMILY_SIZE = {run.family_size!r}  # comparisons that share alpha",
            f"CLAIMS = {_claims(run)!r}  # p-values of sections' claims that share alpha too",
            f"REPORTED = {pprint.pformat(json.loads(json.dumps(_reported_cells(report))), width=110, sort_dicts=False)}",
        ]
    )


def _reported_cells(report: Report) -> dict[str, Any]:
    """Return the cells of the report, by estimate, target and comparison."""
    run = report.run
    estimates = [
        (row.experiment, result.metric, result.arm, f"{row.cells[3]} n={row.cells[4]}")
        for row, result in zip(
            report.estimates.rows,
            (result for analysis in run.experiments for result in analysis.estimates),
            strict=True,
        )
    ]
    target_cells = [
        (row.experiment, k, _number_and_n(row))
        for row, (k, result) in zip(
            targets(run).rows,
            ((k, result) for analysis in run.experiments for k, result in enumerate(analysis.targets)),
            strict=True,
        )
        # The number of a training was read, not estimated: there are no scores to compute it from.
        if not result.estimate.is_known
    ]
    pairs = [result for analysis in run.experiments for result in analysis.comparisons]
    comparison_cells = [
        (row.experiment, k, _number_and_n(row))
        for row, k in zip(
            comparisons(run).rows,
            (k for analysis in run.experiments for k, _ in enumerate(analysis.comparisons)),
            strict=True,
        )
    ]
    return {
        "estimates": estimates,
        "targets": target_cells,
        "comparisons": comparison_cells,
        "p": [p_value(result.p_adjusted) for result in pairs],
        "proof": [p_value(result.proof_adjusted) for result in pairs],
    }


def _number_and_n(row: Row) -> str:
    return f"{row.cells[1]} n={row.cells[2]}"
