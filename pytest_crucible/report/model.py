"""A report as its formats lay it out: headline, tables, remarks, methods; and each experiment with its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.records import (
    Analysis,
    Arm,
    Exchange,
    MetricFacts,
    Note,
    Run,
    SampleColumns,
    State,
    Statement,
    Table,
    experiment_name,
)
from pytest_crucible.report.methods import Reference, cited_keys, find_references, method_statements
from pytest_crucible.report.printable import printable, printable_cell
from pytest_crucible.report.sections import JoinedSection, joined_sections, notes, worst_first, worst_slices_first
from pytest_crucible.report.tables import estimates, verdict_tables
from pytest_crucible.report.verdict_text import plain_sentence
from pytest_crucible.stats.number_format import quantity

# Characters of names above a report. A tab of a browser shows the first thirty or so.
A_SUBJECT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The content of a report as text and formatted cells, in reading order."""

    run: Run
    state: State | None
    """The run's state: missed if any verdict is, else undecided if any is; None if no verdict was given."""
    sentence: str
    """The result in plain words."""
    headline: str
    verdicts: tuple[Table, ...]
    """The tables with verdicts."""
    estimates: Table
    sections: tuple[JoinedSection, ...]
    notes: tuple[Note, ...]
    methods: tuple[Statement, ...]
    """How each number was computed."""
    references: tuple[Reference, ...]
    facts: Mapping[str, str]
    """What the run depended on: name to value."""

    @property
    def subject(self) -> str:
        """Suites and arms: `test_math.py::test_sums: v2 vs v1`."""
        plans = [analysis.plan for analysis in self.run.experiments]
        suites = _first_of(dict.fromkeys(plan.nodeid if len(plans) == 1 else plan.path for plan in plans))
        arms = " vs ".join(dict.fromkeys(arm.name for plan in plans for arm in plan.arms))
        return printable(": ".join(part for part in (suites, arms) if part), A_SUBJECT)

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes as one line each, with their details."""
        return tuple("; ".join((note.text, *note.details)) for note in self.notes)


def build_report(run: Run) -> Report:
    """Return the report of a run. Of many experiments, and of the slices of a comparison, the worst come first."""
    run = worst_slices_first(worst_first(run))
    statements = tuple(method_statements(run))
    return Report(
        run=run,
        state=_state(run),
        sentence=plain_sentence(run),
        headline=headline(run),
        verdicts=verdict_tables(run),
        estimates=estimates(run.experiments),
        sections=joined_sections(run),
        notes=(*_suite_errors(run), *notes(run)),
        methods=statements,
        references=find_references(cited_keys(statements)),
        facts=dict(_facts(run)),
    )


def headline(run: Run) -> str:
    """Return a line such as `3 verdicts: 1 missed, 1 undecided, 1 met`, marked when a script answered."""
    states = [verdict.state for verdict in run.verdicts]
    if not states:
        return "no verdicts"
    errors = sum(verdict.suite_error for verdict in run.verdicts)
    parts = [f"{states.count(state):,} {state}" for state in ("missed", "undecided", "met") if state in states]
    text = f"{quantity(len(states), 'verdict')}: {', '.join(parts)}"
    if errors:
        text += f"; {quantity(errors, 'error')} in the suite"
    simulated = any(arm.simulated for analysis in run.experiments for arm in analysis.plan.arms)
    return text + (" (simulated: scripted replies)" if simulated else "")


def _first_of(names: Iterable[str]) -> str:
    """Return the first name, and the number of further ones."""
    first, *others = names or [""]
    return f"{first} and {len(others):,} more" if others else first


def _suite_errors(run: Run) -> Iterator[Note]:
    """Yield a note for each target or comparison in error that has no row in the tables."""
    # A subject without scores has no numbers, and so no row that could give the reason.
    scored = {
        (analysis.plan.nodeid, subject)
        for analysis in run.experiments
        for subject in (
            *(result.target.text for result in analysis.targets),
            *(comparison.contrast.subject(comparison.candidate) for comparison in analysis.comparisons),
        )
    }
    for verdict in run.verdicts:
        if verdict.suite_error and verdict.kind != "claim" and (verdict.nodeid, verdict.subject) not in scored:
            yield Note(
                text=f"{experiment_name(verdict.nodeid)}: {verdict.subject}: error in the suite: {verdict.reason}"
            )


def _state(run: Run) -> State | None:
    states = {verdict.state for verdict in run.verdicts}
    order: tuple[State, ...] = ("missed", "undecided", "met")
    return next((state for state in order if state in states), None)


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    yield "run", run.id
    yield "started", run.started
    if run.finished:
        yield "finished", run.finished
    yield "seed", f"{run.seed}"
    yield "alpha", f"{run.alpha:g}"
    if run.git:
        yield "commit", f"{run.git['commit']}{' with uncommitted changes' if run.git.get('dirty') else ''}"
    for analysis in run.experiments:
        plan, name = analysis.plan, experiment_name(analysis.plan.nodeid)
        yield (
            f"dataset of {name}",
            f"{plan.dataset}, {quantity(plan.planned, 'sample')}, sha256 {plan.dataset_sha256}",
        )
    yield from _arms(run)
    yield from _flat(run.environment)


def _arms(run: Run) -> Iterator[tuple[str, str]]:
    """Yield each arm, once where it is the same in all experiments."""
    arms: dict[str, dict[str, list[str]]] = {}
    for analysis in run.experiments:
        for arm in analysis.plan.arms:
            same = arms.setdefault(f"{arm.role} {arm.name}", {})
            same.setdefault(f"{_identity_text(arm)}{_parameters_text(arm.parameters)}", []).append(
                experiment_name(analysis.plan.nodeid)
            )
    for arm_name, identities in arms.items():
        for identity, experiments in identities.items():
            yield arm_name if len(identities) == 1 else f"{arm_name} of {', '.join(experiments)}", identity


def _identity_text(arm: Arm) -> str:
    return ", ".join(f"seed {training.seed}: {training.identity}" for training in arm.trainings) or arm.identity


def _parameters_text(parameters: Mapping[str, Any]) -> str:
    return "".join(f", {name} {value}" for name, value in parameters.items())


def _flat(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each fact as one text, nested facts side by side."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield name, ", ".join(f"{key} {inner}" for key, inner in value.items())
        else:
            yield name, str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """An experiment, sample by sample. Columns are in the order of its dataset."""

    analysis: Analysis
    metric: str | None
    """What the experiment is mostly about: compared, else targeted, else first."""
    judged: tuple[str, ...]
    """What is compared or targeted, that metric first."""
    columns: SampleColumns
    facts: Mapping[str, MetricFacts]
    """What is known of each metric, its kind resolved."""
    clusters: npt.NDArray[np.int64] | None
    """A number for the group of each sample, where groups are clusters."""
    read: Callable[[Sequence[int]], Sequence[Exchange]]
    """Conversations about the samples at these positions, in the same order."""

    @property
    def name(self) -> str:
        return experiment_name(self.analysis.plan.nodeid)

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(printable_cell(arm.name) for arm in self.analysis.plan.arms)
