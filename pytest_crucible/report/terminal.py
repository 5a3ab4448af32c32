"""A run as terminal lines: a table of targets, a table of comparisons, and notes on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Analysis, Comparison, Run, Table, Verdict, experiment_name
from pytest_crucible.report.printable import AN_ID, aligned_lines, printable, printable_cell
from pytest_crucible.report.sections import (
    fold_experiments,
    fold_slices,
    joined_sections,
    notes,
    section_excerpts,
    section_views,
    worst_slices_first,
)
from pytest_crucible.report.verdicts import estimates, sentence, verdict_tables
from pytest_crucible.stats.number_format import p_value, quantity

Markup = dict[str, bool]
# Characters of a reply in an excerpt.
A_SCREEN = 1200
_COLOURS: dict[str, Markup] = {
    "met": {"green": True},
    "missed": {"red": True, "bold": True},
    "undecided": {"yellow": True},
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line with its markup; colour only repeats the words."""

    text: str
    markup: Markup = field(default_factory=dict)


def summary(run: Run, *, verbosity: int, width: int) -> Iterator[Line]:
    """Return all lines of a run.

    -q: only what is not met, compared without proof, or in doubt. -v: also methods and losses. -vv: also the worst samples.

    Of many experiments, and of many slices of one comparison, only the worst are shown, but with -v.
    """
    if verbosity < 0:
        yield from _short(run)
        yield from _section_tables(run, 0, width, titled=True)
        return
    more = ""
    if verbosity == 0:
        run, more = fold_experiments(run)
    for level in range(min(verbosity, 2) + 1):
        yield from _section_tables(run, level, width, is_first=True)
        yield from _notes(run, level, is_first=True)
    yield from _verdicts(run, verbosity, width)
    yield from _section_tables(run, 0, width)
    yield from map(Line, _unjudged_lines(run))
    yield from _notes(run, 0)
    if more:
        yield Line(more, {"bold": True})
    if verbosity >= 1:
        yield from _details(run, width)
    if verbosity >= 2:
        yield from _section_tables(run, 2, width)
        yield from _notes(run, 2)
        yield from map(Line, _excerpts(run))


def _verdicts(run: Run, verbosity: int, width: int) -> Iterator[Line]:
    visible, more = (worst_slices_first(run), ()) if verbosity else fold_slices(run)
    for table in verdict_tables(visible):
        yield from _table(table, len(run.experiments) > 1, width)
    yield from (Line(text, {"bold": True}) for text in more)


def _short(run: Run) -> Iterator[Line]:
    yield from _doubtful(run)
    visible, more = fold_slices(run)
    analyses = {analysis.plan.nodeid: analysis for analysis in run.experiments}
    for verdict in filter(_needs_a_look, visible.verdicts):
        yield Line(
            f"{verdict.nodeid}::{verdict.subject}: {sentence(verdict, analyses[verdict.nodeid], run.family_size)}",
            _COLOURS[verdict.state],
        )
    if any(map(_needs_a_look, set(run.verdicts) - set(visible.verdicts))):
        yield from map(Line, more)


def _doubtful(run: Run) -> Iterator[Line]:
    """Yield one line for an experiment, or several alike, of the notes that stand before verdicts and are the reason of none."""
    reasons = {verdict.reason for verdict in run.verdicts}
    names: dict[str, list[str]] = {}
    for analysis in run.experiments:
        of_first = (note for _, view in section_views(analysis) if view.is_first for note in view.notes)
        texts = [note.text for note in of_first if not note.verbosity and note.text not in reasons]
        if texts:
            names.setdefault("; ".join(texts), []).append(analysis.plan.nodeid)
    for text, (first, *others) in names.items():
        more = f" and {quantity(len(others), 'other')}" if others else ""
        yield Line(f"{first}{more}: {text}")


def _needs_a_look(verdict: Verdict) -> bool:
    # Without proof, the line still shows how much worse the candidate may be.
    return verdict.state != "met" or (verdict.kind == "comparison" and not verdict.proven)


def _section_tables(
    run: Run, verbosity: int, width: int, *, is_first: bool = False, titled: bool = False
) -> Iterator[Line]:
    """Yield the tables of the sections that stand before the verdicts, or of the others; or only the `titled` ones."""
    for section in (section for section in joined_sections(run) if section.is_first == is_first):
        for table in section.tables:
            if table.verbosity == verbosity and table.is_titled >= titled:
                yield from _table(table, len(run.experiments) > 1, width)


def _notes(run: Run, verbosity: int, *, is_first: bool = False) -> Iterator[Line]:
    for note in notes(run, verbosity=verbosity, is_first=is_first):
        yield Line(note.text)
        yield from (Line(f"    {detail}") for detail in note.details)


def _table(grid: Table, many: bool, width: int) -> Iterator[Line]:
    """Return one table; with several experiments the rows of each are below its name.

    Where a row does not fit into the terminal, its subject gets a line of its own.
    """
    if not grid.rows:
        return
    text = _align_lines(grid)
    wraps = max(map(len, text)) > width
    if grid.is_titled:
        yield Line(printable(grid.title), {"bold": True})
    if wraps:
        text = [f"  {line}" for line in _align_lines(grid, first=1)]
    yield Line(f"{grid.heads[0]}\n{text[0]}" if wraps else text[0], {"bold": True})
    above = ""
    for line, row in zip(text[1:], grid.rows, strict=True):
        if many and row.experiment != above:
            yield Line(row.experiment)
            above = row.experiment
        yield Line(
            f"{printable_cell(row.cells[0])}\n{line}" if wraps else line, _COLOURS[row.state] if row.state else {}
        )
        if row.below:
            yield Line(f"    {row.below}")
    if grid.note:
        yield Line(grid.note)
    yield Line("")


def _align_lines(grid: Table, first: int = 0) -> list[str]:
    """Return the lines of a table from column `first`, numbers to the right and words to the left."""
    # As a row of its own the head gets no padding for numbers that are not there.
    rows = [
        tuple(map(printable_cell, grid.heads[first:])),
        *(tuple(map(printable_cell, row.cells[first:])) for row in grid.rows),
    ]
    return aligned_lines(rows, right=[k - first for k in range(first, len(grid.heads)) if grid.is_number(k)])


def _unjudged_lines(run: Run) -> Iterator[str]:
    plain = [
        analysis
        for analysis in run.experiments
        if not (analysis.targets or analysis.comparisons or analysis.plan.purpose == "explanation")
    ]
    lines = list(_estimates(plain, len(run.experiments) > 1))
    yield from [*lines, ""] if lines else []


def _details(run: Run, width: int) -> Iterator[Line]:
    yield from map(Line, _estimates(run.experiments, len(run.experiments) > 1))
    yield from map(Line, comparison_tests(run))
    yield from _section_tables(run, 1, width)
    yield from _notes(run, 1)
    for verdict in run.verdicts:
        for fact in run.facts_of(verdict):
            yield Line(
                f"{printable_cell(f'{experiment_name(verdict.nodeid)}: {verdict.subject}')}: {fact.name}: {fact.text}"
            )
    yield from (Line(fact.text) for fact in run.own_facts)
    yield Line(f"run {run.id}, seed {run.seed}, {f'in {run.store}' if run.store else 'not stored'}")


def comparison_tests(run: Run) -> Iterator[str]:
    """Yield the test of each comparison with its p-values."""
    for analysis in run.experiments:
        for pair in analysis.comparisons:
            subject = f"{experiment_name(analysis.plan.nodeid)}: {pair.contrast.subject(pair.candidate)}"
            yield f"{printable_cell(subject)}: {_tests(pair)}"


def _tests(pair: Comparison) -> str:
    """Return the test of a comparison with its p-value; of a permutation test also the p-value of the bounds."""
    if pair.arrangements is None:
        exact = "" if pair.p_exact is None else f", conditional p {p_value(pair.p_exact)}"
        return f"{pair.method}, p {p_value(pair.p_value)}{exact}"
    arrangements = f"{'all' if pair.is_exact else 'random'} {pair.arrangements:,} arrangements"
    bounds = "" if pair.proof_p is None else f"; bounds by {pair.evidence.method}, p {p_value(pair.proof_p)}"
    return f"alike by {pair.method} ({arrangements}), p {p_value(pair.p_value)}{bounds}"


def _estimates(analyses: Sequence[Analysis], many: bool) -> Iterator[str]:
    grid = estimates(analyses)
    if grid.rows:
        yield from _align_lines(grid.with_names() if many else grid)


def _excerpts(run: Run) -> Iterator[str]:
    for analysis in run.experiments:
        for _, excerpt in section_excerpts(analysis):
            yield f"{analysis.plan.nodeid}  {printable(excerpt.sample, AN_ID)}: {excerpt.reason}"
            yield from (f"    {line}" for line in printable(excerpt.text, A_SCREEN).split("\n")[:12])
