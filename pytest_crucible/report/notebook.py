"""A report as a Jupyter notebook (extra `notebook`): it derives each number anew from the stored answers, and compares."""

from __future__ import annotations

import json
import pprint
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.numerals import p_value
from pytest_crucible.records import Run
from pytest_crucible.report.grids import Row
from pytest_crucible.report.markdown import plain
from pytest_crucible.report.model import Report, report_of

try:
    from nbformat import v4, writes
except ModuleNotFoundError as error:
    raise SpecError(
        'notebooks need nbformat, which is not installed: pip install "pytest-crucible[notebook]"'
    ) from error

_READ = '''
import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.questions import measure, question_of
from pytest_crucible.numerals import number, p_value, with_interval
from pytest_crucible.recalling import recalled
from pytest_crucible.sampled import chapters
from pytest_crucible.store.runs import RunStore

store = RunStore(STORE)
run = recalled(store, RUN)
store.close()
with chapters(run) as found:  # scores of every sample: repeats averaged, failures at the worst value, lost ones NaN
    experiments = {one.analysis.plan.nodeid: one for one in found}


def scores(experiment, metric, arm):
    return np.array(experiments[experiment].columns.scores[metric][experiments[experiment].arms.index(arm)])


def shape(experiment, metric):
    """What was declared about a metric."""
    facts = experiments[experiment].facts[metric]
    return {"kind": facts.kind, "bounds": (facts.low, facts.high)}


def groups(experiment, kept):
    labels = experiments[experiment].clusters
    return None if labels is None else labels[kept]


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
    values = scores(experiment, target.metric, chapter.arms[0])
    seen = ~np.isnan(values)
    one = measure(question_of(target, facts[target.metric]), values[seen], groups(experiment, seen), level=1 - ALPHA)
    check(target.text, f"{with_interval(one.value, one.interval)} n={seen.sum():,}", reported)
"""
_COMPARISONS = """
p_values = []
for experiment, metric, candidate, baseline, reported in REPORTED["comparisons"]:
    ours, theirs = scores(experiment, metric, candidate), scores(experiment, metric, baseline)
    both = ~np.isnan(ours) & ~np.isnan(theirs)
    pair = (theirs[both], ours[both])
    if experiments[experiment].facts[metric].direction == "lower":
        pair = pair[::-1]  # a positive difference is an improvement
    if both.any():
        one = stats.compare(*pair, clusters=groups(experiment, both), alpha=ALPHA, **shape(experiment, metric))
        shown = with_interval(one.estimate, one.interval, sign=True)
    else:
        shown = number(None)
    p_values.append(one.p_value if both.any() else None)
    check(f"{metric}: {candidate} vs {baseline}", f"{shown} n={both.sum():,}", reported)

adjusted = stats.holm(p_values, family_size=QUESTIONS)
assert [p_value(one) for one in adjusted] == REPORTED["p"]
"""


def render_notebook(run: Run) -> str:
    """A run as a notebook. Raises SpecError where nbformat is not installed."""
    report = report_of(run)
    cells = [
        v4.new_markdown_cell(_head(report)),
        v4.new_code_cell(_constants(report)),
        v4.new_markdown_cell("## Stored answers"),
        v4.new_code_cell(_READ.strip()),
        v4.new_markdown_cell("## Estimates"),
        v4.new_code_cell(_ESTIMATES.strip()),
        v4.new_markdown_cell("## Targets"),
        v4.new_code_cell(_TARGETS.strip()),
        v4.new_markdown_cell("## Comparisons"),
        v4.new_code_cell(_COMPARISONS.strip()),
        v4.new_markdown_cell("## Methods\n\n" + "\n".join(f"- {plain(one.text)}" for one in report.methods)),
    ]
    for number, cell in enumerate(cells):  # a random id would make two notebooks of one run differ
        cell["id"] = f"cell-{number}"
    return str(writes(v4.new_notebook(cells=cells, metadata=_METADATA))) + "\n"


_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def _head(report: Report) -> str:
    lines = [f"# Run {report.run.id}", "", f"**{plain(report.headline)}**", ""]
    for grid in report.verdicts:
        for row in grid.rows:
            lines.append(
                f"- {plain(row.cells[0])}: {plain(row.cells[1])}, n={row.cells[2]}, **{plain(row.cells[-1])}**"
            )
    return "\n".join(
        [*lines, "", "Every number below is derived anew from the run store, and a cell fails where one differs."]
    )


def _constants(report: Report) -> str:
    run = report.run
    return "\n".join(
        [
            f"STORE = {run.store!r}  # where the run store is now",
            f"RUN = {run.id!r}",
            f"ALPHA = {run.alpha!r}",
            f"QUESTIONS = {run.questions!r}  # comparisons that share alpha",
            f"REPORTED = {pprint.pformat(json.loads(json.dumps(_reported(report))), width=110, sort_dicts=False)}",
        ]
    )


def _reported(report: Report) -> dict[str, Any]:
    """The cells of the report, by what they are about."""
    run = report.run
    estimates = [
        (row.experiment, one.metric, one.arm, f"{row.cells[3]} n={row.cells[4]}")
        for row, one in zip(
            report.estimates.rows, (one for analysis in run.experiments for one in analysis.estimates), strict=True
        )
    ]
    targets = [
        (row.experiment, k, _shown(row))
        for row, (k, one) in zip(
            report.targets.rows,
            ((k, one) for analysis in run.experiments for k, one in enumerate(analysis.targets)),
            strict=True,
        )
        if one.estimate.statistic != "training"
    ]
    pairs = [one for analysis in run.experiments for one in analysis.comparisons]
    comparisons = [
        (row.experiment, one.contrast.metric, one.candidate, one.contrast.baseline, _shown(row))
        for row, one in zip(report.comparisons.rows, pairs, strict=True)
    ]
    p_values = [p_value(one.p_adjusted) for one in pairs]
    return {"estimates": estimates, "targets": targets, "comparisons": comparisons, "p": p_values}


def _shown(row: Row) -> str:
    return f"{row.cells[1]} n={row.cells[2]}"
