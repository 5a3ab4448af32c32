"""The shown parts of a run: sections of all experiments joined, notes, and the worst experiments and slices of many."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    Analysis,
    Chart,
    Comparison,
    Contrast,
    Estimate,
    Excerpt,
    Note,
    Row,
    Run,
    Statement,
    Table,
    View,
    experiment_name,
)
from pytest_crucible.records.measures import State
from pytest_crucible.records.results import RULES_VERSION
from pytest_crucible.records.views import Curves, Diagram, LineChart, MarkedText, TimeBars
from pytest_crucible.report.plan_lines import MOST_SLICES
from pytest_crucible.report.printable import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedSection:
    """One section over all experiments of a run."""

    name: str
    title: str
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...]
    curves: tuple[Curves, ...] = ()
    lines: tuple[LineChart, ...] = ()
    time_bars: tuple[TimeBars, ...] = ()
    diagrams: tuple[Diagram, ...] = ()
    marked_texts: tuple[MarkedText, ...] = ()
    is_first: bool = False
    """Whether it stands before the verdicts."""


def joined_sections(run: Run) -> tuple[JoinedSection, ...]:
    """Return the sections that have tables or charts, in the order in which they were registered."""
    views: dict[str, list[tuple[str, View]]] = {}
    for analysis in run.experiments:
        for name, view in section_views(analysis):
            views.setdefault(name, []).append((analysis.plan.nodeid, view))
    joined = (join_views(name, of_section, many=len(run.experiments) > 1) for name, of_section in views.items())
    return tuple(section for section in joined if section.tables or section.charts)


def facts_section(run: Run) -> JoinedSection | None:
    """Return what features say of verdicts, a column for each kind of fact; None if they say nothing."""
    names = tuple(dict.fromkeys(fact.name for fact in run.facts if fact.nodeid))
    rows = []
    for verdict in run.verdicts:
        texts = {fact.name: fact.text for fact in run.facts_of(verdict)}
        if texts:
            cells = (verdict.subject, *(texts.get(name, "-") for name in names))
            rows.append(Row(experiment=verdict.nodeid, cells=cells, state=verdict.state))
    title = " and ".join(names).capitalize()
    table = Table(title=f"{title} of verdicts", heads=("verdict", *names), rows=tuple(rows))
    return JoinedSection(name="facts", title=title, tables=(table,), charts=()) if rows else None


def split_first_tables(
    sections: Sequence[JoinedSection],
) -> tuple[tuple[Table, ...], tuple[JoinedSection, ...]]:
    """Return the tables that a report has before its verdicts, and the sections without them."""
    first = tuple(table for section in sections if section.is_first for table in section.tables if not table.verbosity)
    others = (
        replace(section, tables=tuple(table for table in section.tables if table not in first)) for section in sections
    )
    return first, tuple(section for section in others if section.tables or section.charts)


def section_views(analysis: Analysis) -> Iterator[tuple[str, View]]:
    """Yield the name and the view of each section of an experiment. One that raised has no view."""
    for name, outcome in analysis.sections.items():
        if outcome.view is not None:
            yield name, outcome.view


def section_excerpts(analysis: Analysis) -> Iterator[tuple[str, Excerpt]]:
    """Yield the title of the section and each sample that it shows."""
    for _, view in section_views(analysis):
        yield from ((view.title, excerpt) for excerpt in view.excerpts)


def section_methods(run: Run) -> tuple[Statement, ...]:
    """Return the sentences that sections add to the methods, each once."""
    statements = (
        statement for analysis in run.experiments for _, view in section_views(analysis) for statement in view.methods
    )
    return tuple(dict.fromkeys(statements))


def join_views(name: str, views: Sequence[tuple[str, View]], *, many: bool) -> JoinedSection:
    """Return the views of one section, each with the nodeid of its experiment, as one; `many` names the experiments."""
    tables: dict[tuple[str, tuple[str, ...]], list[Table]] = {}
    for nodeid, view in views:
        for table in view.tables:
            rows = tuple(replace(row, experiment=nodeid) for row in table.rows)
            tables.setdefault((table.title, table.heads), []).append(replace(table, rows=rows))
    prefixes = [f"{experiment_name(nodeid)}: " if many else "" for nodeid, _ in views]
    named = list(zip(prefixes, (view for _, view in views), strict=True))

    def add_titles(kind: str) -> tuple[Any, ...]:
        """Return the pictures of a kind with the names of their experiments."""
        pictures = ((prefix, picture) for prefix, view in named for picture in getattr(view, kind))
        return tuple(replace(picture, title=f"{prefix}{picture.title}") for prefix, picture in pictures)

    whole = (
        without_empty_columns(replace(parts[0], rows=tuple(row for part in parts for row in part.rows)))
        for parts in tables.values()
    )
    return JoinedSection(
        name=name,
        title=views[0][1].title,
        tables=tuple(table for table in whole if table.rows),
        charts=add_titles("charts"),
        curves=add_titles("curves"),
        lines=add_titles("lines"),
        time_bars=add_titles("time_bars"),
        diagrams=add_titles("diagrams"),
        marked_texts=add_titles("marked_texts"),
        is_first=any(view.is_first for _, view in views),
    )


def without_empty_columns(table: Table) -> Table:
    """Return the table without its empty columns. Other empty cells become dashes."""
    filled = [k for k in range(len(table.heads)) if any(row.cells[k] for row in table.rows)]
    rows = tuple(replace(row, cells=tuple(row.cells[k] or "-" for k in filled)) for row in table.rows)
    return replace(table, heads=tuple(table.heads[k] for k in filled), rows=rows)


# A message of a model or a scorer may be long: its first line identifies it.
LONGEST_DETAIL = 200


def notes(run: Run, *, verbosity: int = 0, is_first: bool | None = None) -> Iterator[Note]:
    """Yield the notes of a run, each with its experiment's name. With a verbosity above 0: only the additional ones.

    `is_first` chooses those of the sections before the verdicts, or all others; None both.
    """
    if run.rules != RULES_VERSION and verbosity == 0 and not is_first:
        yield Note(text=_rules_text(run))
    # The tables have the reasons of verdicts already.
    reasons = {verdict.reason for verdict in run.verdicts}
    for analysis in run.experiments:
        name = experiment_name(analysis.plan.nodeid)
        views = (view for _, view in section_views(analysis) if is_first in (None, view.is_first))
        of_sections = [note for view in views for note in view.notes]
        for note in (note for note in of_sections if note.verbosity == verbosity):
            details = tuple(printable(detail, LONGEST_DETAIL) for detail in note.details)
            yield Note(text=f"{name}: {note.text}", details=details)
        if verbosity == 0 and not is_first:
            texts = dict.fromkeys(
                comparison.note
                for comparison in analysis.comparisons
                if comparison.note and comparison.note not in reasons
            )
            yield from (Note(text=f"{name}: {text}") for text in (*texts, *_inapplicable(analysis)))


def _rules_text(run: Run) -> str:
    if run.decided_again:
        return f"verdicts are decided again by version {RULES_VERSION} of the rules; the session decided by version {run.rules}"
    return (
        f"verdicts are those of the session, by version {run.rules} of the rules; numbers are computed by version {RULES_VERSION}, "
        f"by which `crucible report {run.id}` decides again"
    )


def _inapplicable(analysis: Analysis) -> Iterator[str]:
    plan = analysis.plan
    for variant in plan.variants:
        for reason, samples in variant.reasons.items():
            yield f"variant {variant.name} does not apply to {samples:,} of {plan.selected:,} samples ({reason})"
    # A variant that does not apply to a sample shows nothing about the arm.
    expected = {facts.name for facts in plan.metrics if facts.of_ensemble or facts.is_conditional}
    expected |= {term.facts.name for term in plan.variant_terms}
    for estimate in analysis.estimates:
        if estimate.inapplicable and estimate.metric not in expected:
            share = f"{estimate.inapplicable:,} of {analysis.plan.selected:,} samples"
            yield f"{estimate.metric} of {estimate.arm} does not apply to {share}{_unconditional(estimate)}"


def _unconditional(estimate: Estimate) -> str:
    if estimate.unconditional is None or not estimate.n:
        return ""
    return f"; with them at the worst value its mean is {estimate.unconditional:.3f}"


# Experiments that are printed in full, and that stay in the order of their suite. More tables would hide the worst.
MOST = 12
_WORST: tuple[State, ...] = ("missed", "undecided", "met")


def worst_states(run: Run) -> Mapping[str, State]:
    """Return the worst verdict of each experiment, by its nodeid. One without verdicts is left out."""
    states: dict[str, State] = {}
    for verdict in run.verdicts:
        earlier = states.get(verdict.nodeid)
        states[verdict.nodeid] = verdict.state if earlier is None else min(earlier, verdict.state, key=_WORST.index)
    return states


def worst_first(run: Run) -> Run:
    """Return the run with its experiments from the worst on, if they are many."""
    if len(run.experiments) <= MOST:
        return run
    states = worst_states(run)

    def badness(analysis: Analysis) -> int:
        state = states.get(analysis.plan.nodeid)
        # Without a verdict there is nothing to act on: such experiments come last.
        return len(_WORST) if state is None else _WORST.index(state)

    return replace(run, experiments=tuple(sorted(run.experiments, key=badness)))


def fold_experiments(run: Run) -> tuple[Run, str]:
    """Return the run with only its worst experiments, and a sentence about the others.

    Where all fit, the run is unchanged and the sentence is empty.
    """
    if len(run.experiments) <= MOST:
        return run, ""
    ranked, states = worst_first(run).experiments, worst_states(run)
    rest = Counter(states.get(analysis.plan.nodeid, "not judged") for analysis in ranked[MOST:])
    counts = ", ".join(f"{rest[state]:,} {state}" for state in (*_WORST, "not judged") if rest[state])
    worst = replace(run, experiments=ranked[:MOST])
    return worst, f"{len(ranked) - MOST:,} experiments more: {counts}; -v shows all of them"


Subjects = dict[str, State]


def worst_slices_first(run: Run) -> Run:
    """Return the run with the slices of each comparison by a field from the worst on; other comparisons keep their places."""
    return replace(run, experiments=tuple(_sort(analysis, _states(run, analysis)) for analysis in run.experiments))


def fold_slices(run: Run) -> tuple[Run, tuple[str, ...]]:
    """Return the run with the worst slices of each comparison by a field, and a sentence about the others of each."""
    run, sentences, folded = worst_slices_first(run), list[str](), set[tuple[str, str]]()
    experiments = []
    for analysis in run.experiments:
        states, hidden = _states(run, analysis), set[str]()
        for members in _claims_by_slice(analysis):
            rest = [_subject(comparison) for comparison in members[MOST_SLICES:]]
            if rest:
                sentences.append(_sentence(analysis, members[0], Counter(states.get(name) for name in rest)))
                hidden |= set(rest)
        visible = tuple(comparison for comparison in analysis.comparisons if _subject(comparison) not in hidden)
        experiments.append(replace(analysis, comparisons=visible))
        folded |= {(analysis.plan.nodeid, name) for name in hidden}
    verdicts = tuple(verdict for verdict in run.verdicts if (verdict.nodeid, verdict.subject) not in folded)
    return replace(run, experiments=tuple(experiments), verdicts=verdicts), tuple(sentences)


def _states(run: Run, analysis: Analysis) -> Subjects:
    return {verdict.subject: verdict.state for verdict in run.verdicts if verdict.nodeid == analysis.plan.nodeid}


def _subject(comparison: Comparison) -> str:
    return comparison.contrast.subject(comparison.candidate)


def _whole(contrast: Contrast) -> Contrast:
    return replace(contrast, slice="", slice_size=0)


def _claims_by_slice(analysis: Analysis) -> Sequence[Sequence[Comparison]]:
    claims: dict[Contrast, list[Comparison]] = {}
    for comparison in analysis.comparisons:
        if comparison.contrast.slice:
            claims.setdefault(_whole(comparison.contrast), []).append(comparison)
    return tuple(claims.values())


def _sort(analysis: Analysis, states: Subjects) -> Analysis:
    def badness(comparison: Comparison) -> tuple[float, float]:
        state = states.get(_subject(comparison))
        # Differences are signed so that positive is better; a slice without one has nothing to act on.
        difference = math.inf if comparison.difference is None else comparison.difference
        return len(_WORST) if state is None else _WORST.index(state), difference

    sorted_slices = {
        _whole(claim[0].contrast): iter(sorted(claim, key=badness)) for claim in _claims_by_slice(analysis)
    }
    comparisons = (
        next(sorted_slices[_whole(comparison.contrast)]) if comparison.contrast.slice else comparison
        for comparison in analysis.comparisons
    )
    return replace(analysis, comparisons=tuple(comparisons))


def _sentence(analysis: Analysis, member: Comparison, states: Counter[State | None]) -> str:
    """Return `test_it: accuracy by topic: v2 vs v1: 67 slices more: 1 undecided, 66 met; -v shows all of them`."""
    counts = ", ".join(f"{states[state]:,} {state or 'not judged'}" for state in (*_WORST, None) if states[state])
    subject = _whole(member.contrast).subject(member.candidate)
    more = f"{states.total():,} slice{'s' if states.total() > 1 else ''} more"
    return f"{experiment_name(analysis.plan.nodeid)}: {subject}: {more}: {counts}; -v shows all of them"
