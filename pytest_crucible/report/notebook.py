"""A report as a Jupyter notebook (extra `notebook`) that computes each number again from the stored replies."""

from __future__ import annotations

import json
import pprint
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.records import Row, Run, Table
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.markdown import markdown_table, plain
from pytest_crucible.report.model import Report, build_report
from pytest_crucible.report.verdicts import comparisons, targets
from pytest_crucible.stats.number_format import p_value

try:
    from nbformat import v4, writes
except ModuleNotFoundError as error:
    raise SpecError(
        'notebooks need nbformat, which is not installed: pip install "pytest-crucible[notebook]"'
    ) from error


def render_notebook(run: Run) -> str:
    """Return a run as a notebook. Raises SpecError if nbformat is not installed."""
    report = build_report(run)
    texts = Path(__file__).with_name("notebook_cells.txt").read_text(encoding="utf-8").split("# %%\n")
    titles = ("Stored replies", "Estimates", "Targets", "Comparisons")
    methods = "\n".join(f"- {plain(statement.text)}" for statement in report.methods)
    cells = [v4.new_markdown_cell(_head(report)), v4.new_code_cell(_constants(report))]
    for title, text in zip(titles, texts, strict=True):
        cells += [v4.new_markdown_cell(f"## {title}"), v4.new_code_cell(text.strip())]
    cells += map(v4.new_markdown_cell, (*_sections(report), f"## Methods\n\n{methods}"))
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
