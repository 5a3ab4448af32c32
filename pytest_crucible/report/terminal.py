"""A run as terminal lines: one table of targets, one of comparisons, and what needs saying about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tabulate import tabulate

from pytest_crucible.numerals import p_value
from pytest_crucible.records import Analysis, Run
from pytest_crucible.report.diversity import diversity_lines
from pytest_crucible.report.findings import findings_lines
from pytest_crucible.report.folding import folded
from pytest_crucible.report.grids import Grid, comparisons, estimates, named, targets
from pytest_crucible.report.judges import judge_lines
from pytest_crucible.report.printable import printable
from pytest_crucible.report.remarks import remarks
from pytest_crucible.report.sentences import sentence
from pytest_crucible.report.usage import percentile_lines, usage_lines

Markup = dict[str, bool]
A_SCREEN = 1200
"""Characters of a reply that are shown."""
_COLOURS: dict[str, Markup] = {
    "met": {"green": True},
    "missed": {"red": True, "bold": True},
    "undecided": {"yellow": True},
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line with its markup; colour only repeats what the words say."""

    text: str
    markup: Markup = field(default_factory=dict)


def summary(run: Run, *, verbosity: int, width: int) -> Iterator[Line]:
    """All lines of a run. -q: only what is not met. -v: also methods and losses. -vv: also the worst samples.

    Of many experiments only the worst are shown, but with -v.
    """
    if verbosity < 0:
        yield from _short(run)
        return
    more = ""
    if verbosity == 0:
        run, more = folded(run)
    yield from _tables(run, width)
    yield from map(Line, judge_lines(run))
    yield from usage_table(run)
    yield from map(Line, findings_lines(run.experiments))
    yield from map(Line, _unjudged(run))
    yield from map(Line, remarks(run))
    if more:
        yield Line(more, {"bold": True})
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
    many = len(run.experiments) > 1
    yield from _table(targets(run), many, width)
    yield from _table(comparisons(run), many, width)


def usage_table(run: Run) -> Iterator[Line]:
    """What it took to ask the arms."""
    lines = list(usage_lines(run))
    if lines:
        yield Line(lines[0], {"bold": True})
        yield from map(Line, [*lines[1:], ""])


def _table(grid: Grid, many: bool, width: int) -> Iterator[Line]:
    """One table; with several experiments each one's rows stand under its name.

    Where a row does not fit into the terminal, its subject gets a line of its own.
    """
    if not grid.rows:
        return
    text = _aligned(grid)
    folded = max(map(len, text)) > width
    if folded:
        text = [f"  {line}" for line in _aligned(grid, first=1)]
    yield Line(f"{grid.heads[0]}\n{text[0]}" if folded else text[0], {"bold": True})
    above = ""
    for line, row in zip(text[1:], grid.rows, strict=True):
        if many and row.experiment != above:
            yield Line(row.experiment)
            above = row.experiment
        yield Line(f"{row.cells[0]}\n{line}" if folded else line, _COLOURS[row.state] if row.state else {})
        if row.below:
            yield Line(f"    {row.below}")
    yield Line("")


def _aligned(grid: Grid, first: int = 0) -> list[str]:
    """Numbers to the right, words to the left; from a column on."""
    align = ["right" if grid.is_number(k) else "left" for k in range(first, len(grid.heads))]
    # As a row of its own the head gets no padding for numbers that are not there.
    rows = [grid.heads[first:], *(row.cells[first:] for row in grid.rows)]
    return tabulate(rows, tablefmt="plain", colalign=align, disable_numparse=True).splitlines()


def _unjudged(run: Run) -> Iterator[str]:
    """What was measured without a target or a comparison is shown all the same."""
    plain = [one for one in run.experiments if not (one.targets or one.comparisons)]
    lines = list(_estimates(plain, len(run.experiments) > 1))
    yield from [*lines, ""] if lines else []


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
    grid = estimates(analyses)
    if grid.rows:
        yield from _aligned(grid.with_names() if many else grid)


def _name(analysis: Analysis) -> str:
    return named(analysis.plan.nodeid)


def _worst(run: Run) -> Iterator[str]:
    """The worst samples, with what the candidate said."""
    for analysis in run.experiments:
        for one in analysis.worst:
            was = "" if one.baseline_value is None else f", baseline {one.baseline_value:g}"
            yield f"{analysis.plan.nodeid}  {printable(one.sample, A_SCREEN)}: {one.metric} = {one.value:g}{was}"
            yield from (f"    {line}" for line in printable(one.reply, A_SCREEN).split("\n")[:12])
