"""A report: everything that a run comes to, said once. Markdown, HTML, LaTeX and notebooks only lay it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_crucible.numerals import counted
from pytest_crucible.records import Run, State
from pytest_crucible.report.findings import agreement_grid, findings_grid
from pytest_crucible.report.folding import worst_first
from pytest_crucible.report.grids import Grid, comparisons, estimates, named, targets
from pytest_crucible.report.methods import Statement, cited, methods
from pytest_crucible.report.references import Reference, known_references
from pytest_crucible.report.remarks import remarks
from pytest_crucible.report.usage import percentile_grid, usage_grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A run in words and finished cells, in the order in which it is read."""

    run: Run
    state: State | None
    """Of the run: missed if anything is, else undecided if anything is; None where nothing was judged."""
    headline: str
    targets: Grid
    comparisons: Grid
    estimates: Grid
    findings: Grid
    agreement: Grid
    """Precision and recall of the findings, where people have looked for them too."""
    usage: Grid
    percentiles: Grid
    remarks: tuple[str, ...]
    methods: tuple[Statement, ...]
    """How each number was got."""
    references: tuple[Reference, ...]
    facts: Mapping[str, str]
    """What the run depended on: name to value."""

    @property
    def verdicts(self) -> tuple[Grid, ...]:
        """The tables of what was judged, those that have rows."""
        return tuple(grid for grid in (self.targets, self.comparisons) if grid.rows)


def report_of(run: Run) -> Report:
    """The report of a run, just concluded or from the run store. Of many experiments the worst stand first."""
    run = worst_first(run)
    statements = tuple(methods(run))
    return Report(
        run=run,
        state=_state(run),
        headline=headline(run),
        targets=targets(run),
        comparisons=comparisons(run),
        estimates=estimates(run.experiments),
        findings=findings_grid(run.experiments),
        agreement=agreement_grid(run.experiments),
        usage=usage_grid(run),
        percentiles=percentile_grid(run),
        remarks=(*_mistakes(run), *_joined(remarks(run))),
        methods=statements,
        references=tuple(known_references()[key] for key in cited(statements)),
        facts=dict(_facts(run)),
    )


def headline(run: Run) -> str:
    """`missed: 1 of 3 verdicts missed, 1 undecided`. What no model answered is called simulated here too."""
    states = [one.state for one in run.verdicts]
    if not states:
        return "nothing was judged"
    mistakes = sum(one.mistake for one in run.verdicts)
    parts = [f"{states.count(state):,} {state}" for state in ("missed", "undecided", "met") if state in states]
    said = f"{counted(len(states), 'verdict')}: {', '.join(parts)}"
    if mistakes:
        said += f"; {counted(mistakes, 'mistake')} in the suite"
    simulated = any(arm.simulated for analysis in run.experiments for arm in analysis.plan.arms)
    return said + (" (simulated: a script answered)" if simulated else "")


def _mistakes(run: Run) -> Iterator[str]:
    """What names nothing that was scored has no numbers, and so no row."""
    known = {
        (analysis.plan.nodeid, subject)
        for analysis in run.experiments
        for subject in (
            *(one.target.text for one in analysis.targets),
            *(one.contrast.subject(one.candidate) for one in analysis.comparisons),
        )
    }
    for one in run.verdicts:
        if one.mistake and (one.nodeid, one.subject) not in known:
            yield f"{named(one.nodeid)}: {one.subject}: mistake in the suite: {one.reason}"


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """Remarks as one line each: what stands below another one goes with it."""
    above = ""
    for line in lines:
        if not line.startswith(" "):
            yield from [above] if above else []
            above = line
        else:
            above = f"{above}; {line.strip()}"
    yield from [above] if above else []


def _state(run: Run) -> State | None:
    states = {one.state for one in run.verdicts}
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
        plan, name = analysis.plan, named(analysis.plan.nodeid)
        yield (
            f"dataset of {name}",
            f"{plan.dataset}, {counted(plan.planned, 'sample')}, sha256 {plan.dataset_sha256}",
        )
    yield from _arms(run)
    yield from _flat(run.environment)


def _arms(run: Run) -> Iterator[tuple[str, str]]:
    """Each arm once where it is the same in all experiments."""
    found: dict[str, dict[str, list[str]]] = {}
    for analysis in run.experiments:
        for arm in analysis.plan.arms:
            same = found.setdefault(f"{arm.role} {arm.name}", {})
            same.setdefault(f"{arm.identity}{_sampled(arm.parameters)}", []).append(named(analysis.plan.nodeid))
    for arm_name, identities in found.items():
        for identity, experiments in identities.items():
            yield arm_name if len(identities) == 1 else f"{arm_name} of {', '.join(experiments)}", identity


def _sampled(parameters: Mapping[str, Any]) -> str:
    return "".join(f", {name} {value}" for name, value in parameters.items())


def _flat(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Nested facts side by side."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield name, ", ".join(f"{key} {one}" for key, one in value.items())
        else:
            yield name, str(value)
