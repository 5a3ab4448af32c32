"""Results of other harnesses as a run: arms of one task become one experiment, on the samples that all of them have."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from pytest_crucible.datasets import identify
from pytest_crucible.importers.metric_facts import Declared, metric_facts
from pytest_crucible.importers.results import ImportedFile, Results, Row
from pytest_crucible.plan.design import (
    check_expected,
    check_repeats,
    contrasts_with_baselines,
    group_count,
    plan_metrics,
    without_unfounded_claim,
)
from pytest_crucible.plan.targets import contrast_of_unnamed, with_declarations
from pytest_crucible.records import (
    Arm,
    Contrast,
    Dataset,
    Fingerprint,
    Lost,
    MetricFacts,
    Observation,
    Outcome,
    Plan,
    Role,
    Run,
    Sample,
    Target,
    Unit,
    Value,
)
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import canonical, pick
from pytest_crucible.records.settings import DEFAULT_ALPHA
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.runs.provenance import environment_facts, utc_now
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The results of all arms on one task. The first arm is the candidate."""

    name: str
    arms: tuple[Results, ...]
    samples: tuple[str, ...]
    """The ids that all arms have, in the order of the candidate."""
    notes: tuple[str, ...] = ()


def group_tasks(files: Sequence[ImportedFile], names: Sequence[str] = (), candidate: str = "") -> list[Task]:
    """Return the tasks of all files. `names` renames the files' arms, in their order. The candidate is the first arm by default.

    Raises SpecError.
    """
    renamed = list(_named_arms(files, names))
    arms = dict.fromkeys(of_arm.arm for of_arm in renamed)
    if candidate and candidate not in arms:
        raise SpecError(f"arm {candidate!r} does not exist: the files have {', '.join(arms)}")
    tasks: dict[str, list[Results]] = {}
    for results in sorted(renamed, key=lambda of_arm: of_arm.arm != candidate):
        tasks.setdefault(results.task, []).append(results)
    return [_task(name, arms) for name, arms in tasks.items()]


def _named_arms(files: Sequence[ImportedFile], names: Sequence[str]) -> Iterator[Results]:
    """Yield arms with the names that the user gives, or else their own: with the file's name where two files share one."""
    origins = _by_origin(files)
    if names and len(names) != len(origins):
        raise SpecError(
            f"{quantity(len(names), 'arm')} named for {quantity(len(origins), 'file')}: give --arm once for each file"
        )
    labels = _labels([origin for origin, _ in origins])
    for k, ((origin, results_of), label) in enumerate(zip(origins, labels, strict=True)):
        several = len({arm.arm for arm in results_of}) > 1
        others = {(arm.task, arm.arm) for j, (_, other) in enumerate(origins) if j != k for arm in other}
        if names and several:
            raise SpecError(f"{origin} has several arms, which have names already: leave --arm out")
        for results in results_of:
            of_file = f"{label}/{results.arm}" if several else label
            name = of_file if (results.task, results.arm) in others else results.arm
            yield replace(results, arm=names[k] if names else name)


def _by_origin(files: Sequence[ImportedFile]) -> list[tuple[str, list[Results]]]:
    """Return the results of each path that the user named. A file that is named twice stays two."""
    origins: list[tuple[str, list[Results]]] = []
    for file in files:
        is_same_folder = bool(origins) and bool(file.folder) and origins[-1][0] == file.folder
        # The same directory named twice repeats its results.
        if is_same_folder and not {of.identity for of in file.results} & {of.identity for of in origins[-1][1]}:
            origins[-1][1].extend(file.results)
        else:
            origins.append((file.origin, list(file.results)))
    return origins


def _labels(origins: Sequence[str]) -> list[str]:
    """Return a label for each path: its stem, its name or itself, whichever is the shortest that is unique."""
    paths = [Path(origin) for origin in origins]
    stems, names = [path.stem for path in paths], [path.name for path in paths]
    return next((labels for labels in (stems, names) if len(set(labels)) == len(labels)), list(origins))


def _task(name: str, arms: Sequence[Results]) -> Task:
    same = next(((a.arm, b.arm) for a, b in combinations(arms, 2) if a.identity == b.identity), None)
    if same is not None:
        raise SpecError(f"task {name!r}: {same[0]!r} and {same[1]!r} are the same results: compare two that differ")
    twice = next((name for name, count in Counter(results.arm for results in arms).items() if count > 1), None)
    if twice is not None:
        raise SpecError(f"task {name!r} has arm {twice!r} twice: give each file another name with --arm")
    ids = [dict.fromkeys([*(row.sample for row in results.rows), *results.planned]) for results in arms]
    shared = [results for results in ids[0] if all(results in other for other in ids)]
    inputs: dict[str, set[str]] = {}
    for row in (row for results in arms for row in results.rows if row.input is not None):
        inputs.setdefault(row.sample, set()).add(canonical(row.input))
    # One id, but several inputs.
    changed = [sample for sample, of_sample in inputs.items() if len(of_sample) > 1]
    common = tuple(results for results in shared if results not in changed)
    if not common:
        raise SpecError(
            f"task {name!r}: {arms[0].arm!r} has {len(ids[0])} samples (first: {next(iter(ids[0]))}) and "
            f"{arms[1].arm!r} {len(ids[1])} (first: {next(iter(ids[1]))}), and no sample in common with the same input: "
            "compare results of the same samples"
        )
    notes = list(_unshared_notes(name, arms, ids, shared))
    if changed:
        notes.append(
            f"task {name!r}: {quantity(len(changed), 'sample')} (first: {changed[0]}) asked something else in each arm, left out"
        )
    return Task(name=name, arms=tuple(arms), samples=common, notes=tuple(notes))


def _unshared_notes(
    name: str, arms: Sequence[Results], ids: Sequence[Mapping[str, None]], common: Sequence[str]
) -> Iterator[str]:
    shared = set(common)
    for results, samples in zip(arms, ids, strict=True):
        alone = [sample for sample in samples if sample not in shared]
        if alone:
            yield (
                f"task {name!r}: {quantity(len(alone), 'sample')} of {results.arm!r} (first: {alone[0]}) "
                "that not every arm was asked, left out"
            )


@dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """Files of other harnesses, with the tasks, targets and comparisons to decide on them."""

    files: Sequence[ImportedFile]
    tasks: Sequence[ImportedTask]
    alpha: float

    @classmethod
    def of(cls, files: Sequence[ImportedFile], wishes: ImportOptions) -> ImportedRun:
        """Plan the tasks of the files, before any store is opened. Raises SpecError for invalid options."""
        tasks = [ImportedTask.of(task, files, wishes) for task in group_tasks(files, wishes.arms, wishes.candidate)]
        # Checked over all tasks: a metric may be in one of them only.
        _check_named(wishes, tasks)
        return cls(files=files, tasks=tasks, alpha=wishes.alpha)

    def check_compared(self) -> None:
        """Raise SpecError if no task has two arms with a metric in common."""
        if any(task.plan.contrasts for task in self.tasks):
            return
        arms = {arm.arm: sorted(names_of(arm)) for task in self.tasks for arm in task.task.arms}
        if all(len(task.task.arms) == 1 for task in self.tasks):
            of_arms = ", ".join(f"{task.task.arms[0].arm!r} has task {task.task.name!r}" for task in self.tasks)
            raise SpecError(f"nothing was compared: {of_arms}: compare results of the same tasks")
        of_arms = ", ".join(f"{name!r} has {', '.join(metrics) or 'none'}" for name, metrics in arms.items())
        raise SpecError(f"nothing was compared: the arms share no metric with numbers: {of_arms}")

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on reading the file: assumptions, and rows that were left out."""
        notes = [*(file.notes for file in self.files), *(task.notes for task in self.tasks)]
        return tuple(dict.fromkeys(chain.from_iterable(notes)))

    def enter(self, store: RunStore) -> Run:
        """Store the results, analyse them and decide the verdicts."""
        origins = [{"file": file.path, **pick(file, "sha256 harness version")} for file in self.files]
        run, environment = secrets.token_hex(6), {**environment_facts(), "imported": origins}
        facts = {"started": utc_now(), "seed": 0, "alpha": self.alpha, "correction": "holm", "git": None}
        store.begin_run(run, **facts, environment=environment)
        with contextlib.closing(store.writer()) as writer:
            for task in self.tasks:
                _enter(task, store, run, writer)
        return conclude(store, run, alpha=self.alpha, strict=False, interrupted=False, amend=lambda verdict: None)

    def evaluate_unstored(self) -> Run:
        """Return the run with its verdicts, as `enter` does, but do not store it."""
        with tempfile.TemporaryDirectory() as folder, contextlib.closing(RunStore(f"{folder}/compared.db")) as store:
            # A temporary store, so that the analysis is the same as that of a stored run.
            run = self.enter(store)
        return replace(run, id=" vs ".join(Path(file.path).name for file in self.files), store="")


def _enter(adopted: ImportedTask, store: RunStore, run: str, writer: Writer) -> None:
    key = store.add_experiment(run, adopted.plan, adopted.samples)
    positions = {sample.id: position for position, sample in enumerate(adopted.samples)}
    kinds = {facts.name: facts for facts in adopted.plan.metrics}
    for number, (arm, results) in enumerate(zip(adopted.plan.arms, adopted.task.arms, strict=True)):
        entered = store.add_arm(key, number, arm.name, "")
        for row in results.rows:
            if row.sample in positions and row.repeat < adopted.plan.repeats:
                writer.add(*_writer_arguments(row, number, positions[row.sample], entered, kinds))
    if all(arm.finished for arm in adopted.task.arms):
        store.finish_experiment(key)


def _writer_arguments(
    row: Row, number: int, position: int, arm: int, facts: Mapping[str, MetricFacts]
) -> tuple[Outcome, int, list[Observation], list[Lost]]:
    unit = Unit(position, 0, number, row.repeat)
    if row.error:
        outcome = Outcome(unit, lost="error", detail=row.error)
        return outcome, arm, [], [Lost(unit, None, "error", row.error)]
    scored = [Observation(unit, name, _value(value, facts[name])) for name, value in row.scores.items()]
    lost = [Lost(unit, name, "scorer", why) for name, why in row.lost.items()]
    return Outcome(unit, reply=row.reply), arm, scored, lost


def _value(value: Value | None, facts: MetricFacts) -> Value | None:
    if value is None:
        return None
    return str(value) if facts.kind == "text" else bool(value) if facts.kind == "binary" else float(value)


def _check_named(wishes: ImportOptions, adopted: Sequence[ImportedTask]) -> None:
    metrics = {facts.name for task in adopted for facts in task.plan.metrics}
    named = dict.fromkeys([*wishes.declared.names, *(contrast.metric for contrast in wishes.contrasts)], "there is no")
    named |= {target.metric: f"target {target.text!r} names" for target in wishes.targets}
    for name, what in named.items():
        if name not in metrics:
            raise SpecError(f"{what} metric {name!r}: the files have {', '.join(sorted(metrics))}")
    compared = {contrast.metric for task in adopted for contrast in task.plan.contrasts}
    for contrast in wishes.contrasts:
        if contrast.metric not in compared:
            raise SpecError(f"metric {contrast.metric!r} cannot be compared: {_why_not(contrast, adopted)}")


def _why_not(contrast: Contrast, adopted: Sequence[ImportedTask]) -> str:
    tasks = [task for task in adopted if len(task.task.arms) > 1]
    if not tasks:
        return "no task has two arms"
    lacking = [arm.arm for arm in tasks[0].task.arms if not set(contrast.metrics) <= names_of(arm)]
    if lacking:
        return f"task {tasks[0].task.name!r} of {lacking[0]!r} has no value of it"
    return "its values are text"


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options of an import: arms, targets, comparisons, and facts about metrics."""

    arms: Sequence[str] = ()
    candidate: str = ""
    targets: Sequence[Target] = ()
    contrasts: tuple[Contrast, ...] = ()
    """Without a baseline. Empty: every metric that all arms have."""
    declared: Declared = field(default_factory=Declared)
    alpha: float = DEFAULT_ALPHA


@dataclass(frozen=True, kw_only=True)
class ImportedTask:
    """One task of imported files, with its plan and samples."""

    task: Task
    plan: Plan
    samples: tuple[Sample, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, task: Task, files: Sequence[ImportedFile], wishes: ImportOptions) -> ImportedTask:
        """Plan one task. Raises SpecError for targets and comparisons that do not fit it."""
        samples = _samples(task)
        facts, assumed = metric_facts(task.arms, wishes.declared)
        contrasts_of_task = _contrasts(wishes.contrasts, task, facts) if len(task.arms) > 1 else []
        targets = tuple(target for target in wishes.targets if set(target.metrics) <= {fact.name for fact in facts})
        plan_metrics(facts, targets, contrasts_of_task, open_metrics=False)
        check_expected(targets, contrasts_of_task, samples)
        # The table of comparisons reports it for those without a verdict.
        estimated = {contrast.metric for contrast in contrasts_of_task if not contrast.decides}
        decisive = {name for claim in (*contrasts_of_task, *targets) for name in claim.metrics} or set(assumed)
        assumptions = [sentence for name, sentence in assumed.items() if name in decisive - estimated]
        path = next(file.path for file in files if task.name in {results.task for results in file.results})
        plan = _plan(task, path, identify(task.name, samples), facts, targets, contrasts_of_task)
        check_repeats(targets, contrasts_of_task, plan.repeats)
        return cls(
            task=task, plan=plan, samples=samples, notes=(*task.notes, *_repeats(task, plan.repeats), *assumptions)
        )


def _plan(
    task: Task,
    path: str,
    dataset: Dataset,
    facts: tuple[MetricFacts, ...],
    targets: tuple[Target, ...],
    contrasts_of_task: Sequence[Contrast],
) -> Plan:
    arms, n = tuple(_arm(number, results) for number, results in enumerate(task.arms)), len(dataset.samples)
    metrics = _sha([metric.name for metric in facts])
    return Plan(
        nodeid=f"imported::{task.name}",
        path=path,
        line=0,
        dataset=dataset.name,
        dataset_sha256=dataset.sha256,
        planned=n,
        selected=n,
        groups=group_count(dataset),
        # Repeats are paired between arms; `_repeats` notes those that are left out.
        repeats=min(results.repeats for results in task.arms),
        arms=arms,
        metrics=facts,
        targets=targets,
        contrasts=contrasts_with_baselines(contrasts_of_task, arms, dataset.samples),
        fingerprint=Fingerprint(dataset=dataset.sha256, function=_sha(task.name), metrics=metrics, sampling=""),
        open_metrics=False,
    )


def _samples(task: Task) -> tuple[Sample, ...]:
    """Return the samples as the candidate's rows describe them; samples that it lacks, as another arm's rows do."""
    # In reverse, because a later entry replaces an earlier one: the candidate's first row of a sample wins.
    rows = {row.sample: row for results in reversed(task.arms) for row in reversed(results.rows)}
    groups = _groups(task)
    rows_of_samples = ((name, rows.get(name)) for name in task.samples)
    return tuple(
        Sample(id=name, input=row.input, expected=row.expected, group=groups.get(name), metadata=row.metadata)
        if row
        else Sample(id=name, input=None, group=groups.get(name))
        for name, row in rows_of_samples
    )


def _groups(task: Task) -> dict[str, str]:
    """Return sample -> group, where the files have groups. Raises SpecError for groups that differ between arms."""
    groups: dict[str, str] = {}
    for results in task.arms:
        for row in results.rows:
            if row.group is not None and groups.setdefault(row.sample, row.group) != row.group:
                raise SpecError(
                    f"task {task.name!r}: sample {row.sample!r} is in group {groups[row.sample]!r} and, for "
                    f"{results.arm!r}, in {row.group!r}: a sample has one group"
                )
    # A sample that no arm reached has no known group. Without a group of its own, none could be used.
    return {name: groups.get(name, f"sample {name}") for name in task.samples} if groups else {}


def _arm(number: int, results: Results) -> Arm:
    """Return an arm whose identity is its file, which does not show which weights answered."""
    role: Role = "baseline" if number else "candidate"
    return Arm(name=results.arm, role=role, adapter=results.arm, identity=results.identity, recorded=True)


def names_of(arm: Results) -> set[str]:
    """Return the names of the metrics that an arm has."""
    return {name for row in arm.rows for name in (*row.scores, *row.lost)}


def _contrasts(chosen: Sequence[Contrast], task: Task, facts: Sequence[MetricFacts]) -> list[Contrast]:
    """Return the chosen comparisons that the task allows, or else one for each metric that all arms have."""
    has = [names_of(arm) for arm in task.arms]
    common = [metric.name for metric in facts if metric.kind != "text" and all(metric.name in names for names in has)]
    by_name = {metric.name: metric for metric in facts}
    contrasts = chosen or [
        contrast_of_unnamed(by_name[name], (row.scores.get(name) for arm in task.arms for row in arm.rows))
        for name in common
    ]
    possible = [contrast for contrast in contrasts if set(contrast.metrics) <= set(common)]
    decidable = (without_unfounded_claim(contrast, by_name[contrast.metric]) for contrast in possible)
    return list(with_declarations(decidable, facts))


def _repeats(task: Task, repeats: int) -> Iterator[str]:
    for arm in task.arms:
        if arm.repeats > repeats:
            yield f"task {task.name!r}: {arm.arm!r} has {arm.repeats} repeats and another arm {repeats}: the others are left out"


def _sha(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()
