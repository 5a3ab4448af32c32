"""A report as its formats lay it out: headline, tables, remarks, methods with references, and each experiment with its samples."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    Analysis,
    Comparison,
    Exchange,
    Measure,
    MetricFacts,
    Note,
    Plan,
    Run,
    SampleColumns,
    State,
    Statement,
    Table,
    experiment_name,
)
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.plain_sentence import plain_sentence
from pytest_crucible.report.printable import printable, printable_cell
from pytest_crucible.report.sections import (
    JoinedSection,
    facts_section,
    joined_sections,
    notes,
    section_methods,
    split_first_tables,
    worst_first,
    worst_slices_first,
)
from pytest_crucible.report.verdicts import estimates, verdict_tables
from pytest_crucible.stats.number_format import quantity

_REPEATS = "Repeats were averaged within each sample; rates, percentiles and counts are of single replies, clustered by sample. "


def method_statements(run: Run) -> Iterator[Statement]:
    """Yield the sentences on estimates, differences, bounds, p-values and percentiles of a run."""
    level = f"{(1 - run.alpha) * 100:g} %"
    repeats = _REPEATS if any(analysis.plan.draws(0).size > 1 for analysis in run.experiments) else ""
    yield Statement(
        text=f"{repeats}Intervals are two-sided at {level} unless another level is beside them; n counts samples, and lost ones "
        "are counted apart."
    )
    measures = [*_measures(run)]
    if any(measure.draws is not None for measure in measures):
        yield Statement(
            text="pass^k and pass@k are means over samples: the share of all draws of k of a sample's replies of which all pass, "
            "or some does. They are unbiased.",
            cites=("chen2021", "yao2024"),
        )
    factors = dict.fromkeys(name for analysis in run.experiments for name in analysis.plan.random_factors)
    if factors:
        yield Statement(text=f"Random factors, whose noise the intervals count: {', '.join(factors)}.")
    estimates = [result.method for analysis in run.experiments for result in analysis.estimates]
    yield from _by("Estimates", estimates)
    pairs = [result for analysis in run.experiments for result in analysis.comparisons]
    if pairs:
        yield Statement(
            text="Arms were compared on the samples that both answered: candidate minus baseline, positive where it is better."
        )
    # A permutation test has no interval of its own.
    by_interval = (result.interval if result.arrangements is not None else None for result in pairs)
    methods = [
        interval.method if interval else result.method for interval, result in zip(by_interval, pairs, strict=True)
    ]
    yield from _by("Differences", methods)
    yield from _permutation_tests([result for result in pairs if result.arrangements is not None])
    bounds = [result.evidence.method for analysis in run.experiments for result in analysis.targets]
    bounds += [result.evidence.method for result in pairs if result.contrast.limit is not None]
    all_share = any(analysis.bounds_share_alpha for analysis in run.experiments)
    bounds_alpha = run.alpha / max(run.family_size, 1) if all_share else run.alpha
    yield from _by(f"One-sided bounds, at {bounds_alpha:.3g} each,", bounds)
    reaches = list(dict.fromkeys(_reach_texts(run)))
    if reaches:
        yield Statement(
            text=f"By declaration no sample's value changes between two arms by more than {'; '.join(reaches)}; bounds of "
            "differences use it."
        )
    if any(result.p_exact is not None for result in pairs):
        yield Statement(text="Conditional p-values beside them are McNemar's.", cites=("mcnemar1947",))
    if run.family_size > 1:
        family = quantity(run.family_size, "claim" if all_share else "comparison")
        adjustment = (
            f"P-values are adjusted by Holm's procedure over the {family} of the session, in two families: those of the tests that "
            "can fail it, and those of the bounds by which a difference is called proven; intervals are not adjusted."
        )
        yield Statement(text=adjustment, cites=("holm1979",))
    yield from section_methods(run)
    for fact in run.own_facts:
        yield Statement(text=fact.text)
    version = run.environment.get("packages", {}).get("pytest-crucible", "")
    yield Statement(text=f"All was computed by pytest-crucible {version}".rstrip() + f" with seed {run.seed}.")


def _measures(run: Run) -> Iterator[Measure]:
    """Yield what the targets and comparisons of a run are about."""
    for analysis in run.experiments:
        yield from (*analysis.plan.targets, *analysis.plan.contrasts)


def cited_keys(statements: Sequence[Statement]) -> tuple[str, ...]:
    """Return every cited key once, in the order of first citation."""
    return tuple(dict.fromkeys(key for statement in statements for key in statement.cites))


def _by(what: str, names: Iterable[str]) -> Iterator[Statement]:
    # Other words, such as `no data`, are not methods.
    descriptions = [read_table("methods")[name] for name in dict.fromkeys(names) if name in read_table("methods")]
    if descriptions:
        keys = dict.fromkeys(key for _, *cites in descriptions for key in cites)
        yield Statement(text=f"{what} are by {'; by '.join(words for words, *_ in descriptions)}.", cites=tuple(keys))


def _permutation_tests(results: Sequence[Comparison]) -> Iterator[Statement]:
    """Yield what permutation tests claim, by which method, and how many arrangements they compare."""
    yield from _by("Tests that the replies of two arms could be exchanged", [result.method for result in results])
    if not results:
        return
    is_random = not all(result.is_exact for result in results)
    random = " Random arrangements are drawn by the seed of the run." if is_random else ""
    counts = sorted({result.arrangements or 0 for result in results})
    number = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    yield Statement(
        text=f"Each compares {number} arrangements, and p is the share of those as extreme as the observed one, itself included."
        f"{random} They do not show that a mean is lower or higher; that is called proven by bounds alone.",
        cites=("phipson2010", "besag1991"),
    )


def _reach_texts(run: Run) -> Iterator[str]:
    """Yield the declared reach of each metric whose comparisons use it: `0.25 (quality)`."""
    for analysis in run.experiments:
        for result in analysis.comparisons:
            facts = analysis.plan.facts.get(result.contrast.metric)
            is_used = result.contrast.statistic == "mean" and result.ratio is None and result.beyond_reach is None
            if facts is not None and facts.reach is not None and is_used:
                yield f"{facts.reach:g} ({facts.name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One publication: the key that a paper cites it by, its BibTeX type and fields."""

    key: str
    type: str
    fields: Mapping[str, str]

    def bibtex(self) -> str:
        """Return the BibTeX entry, one field on each line."""
        lines = [f"  {name} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.type}{{{self.key},", *lines, "}"])

    def plain(self) -> str:
        """Return `Holm, Sture (1979). A simple ... procedure. Scandinavian Journal of Statistics 6(2):65-70.`"""
        fields = {name: value.translate(_PLAIN).replace("--", "-") for name, value in self.fields.items()}
        where = fields.get("journal") or fields["publisher"]
        if "volume" in fields:
            where += f" {fields['volume']}({fields['number']}):{fields['pages']}"
        doi = f" doi:{fields['doi']}" if "doi" in fields else ""
        # BibTeX writes quotes as pairs of accents and apostrophes.
        title = fields["title"].replace("``", '"').replace("''", '"')
        if "edition" in fields:
            title += f", {fields['edition'].lower()} edition"
        return f"{fields['author']} ({fields['year']}). {title}. {where}.{doi}"


_PLAIN = {ord("\\"): None, ord("{"): None, ord("}"): None}


@cache
def read_table(name: str) -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def known_references() -> Mapping[str, Reference]:
    """Return all that a run may cite, by key."""
    tables = read_table("references")
    return {
        key: Reference(key=key, type=fields["type"], fields={name: fields[name] for name in fields if name != "type"})
        for key, fields in tables.items()
    }


def find_references(keys: Sequence[str]) -> tuple[Reference, ...]:
    """Return the publications of some keys. Raises SpecError for a key that references.toml does not have."""
    references = known_references()
    unknown = next((key for key in keys if key not in references), None)
    if unknown is not None:
        raise SpecError(f"a section cites {unknown!r}, which is not a known reference (known: {', '.join(references)})")
    return tuple(references[key] for key in keys)


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
    """The tables with verdicts, after those of sections that must be read before them."""
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
    before, sections = split_first_tables(joined_sections(run))
    facts = facts_section(run)
    return Report(
        run=run,
        state=_state(run),
        sentence=plain_sentence(run),
        headline=headline(run),
        verdicts=(*before, *verdict_tables(run)),
        estimates=estimates(run.experiments),
        sections=(facts, *sections) if facts else sections,
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
    first, *others = names or [""]
    return f"{first} and {len(others):,} more" if others else first


def _suite_errors(run: Run) -> Iterator[Note]:
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
            name = experiment_name(verdict.nodeid)
            yield Note(text=f"{name}: {verdict.subject}: error in the suite: {verdict.reason}")


def _state(run: Run) -> State | None:
    states = {verdict.state for verdict in run.verdicts}
    order: tuple[State, ...] = ("missed", "undecided", "met")
    return next((state for state in order if state in states), None)


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    yield from (("run", run.id), ("started", run.started))
    if run.finished:
        yield "finished", run.finished
    yield from (("seed", f"{run.seed}"), ("alpha", f"{run.alpha:g}"))
    yield from making_facts([analysis.plan for analysis in run.experiments], run.git, run.environment)


def making_facts(
    plans: Sequence[Plan], git: Mapping[str, Any] | None, environment: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield what the replies of a run depended on: name and value."""
    if git:
        yield "commit", f"{git['commit']}{' with uncommitted changes' if git.get('dirty') else ''}"
    for plan in plans:
        dataset = f"{plan.dataset}, {quantity(plan.planned, 'sample')}, sha256 {plan.dataset_sha256}"
        yield f"dataset of {experiment_name(plan.nodeid)}", dataset
    yield from _arms(plans)
    yield from _flat(environment)


def _arms(plans: Sequence[Plan]) -> Iterator[tuple[str, str]]:
    arms: dict[str, dict[str, list[str]]] = {}
    for plan in plans:
        for arm in plan.arms:
            seeds = ", ".join(f"seed {training.seed}: {training.identity}" for training in arm.trainings)
            parameters = "".join(f", {name} {value}" for name, value in arm.parameters.items())
            same = arms.setdefault(f"{arm.role} {arm.name}", {})
            same.setdefault(f"{seeds or arm.identity}{parameters}", []).append(experiment_name(plan.nodeid))
    for arm_name, identities in arms.items():
        for identity, experiments in identities.items():
            yield arm_name if len(identities) == 1 else f"{arm_name} of {', '.join(experiments)}", identity


def _flat(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
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
