"""Results of other harnesses as a run: each task becomes an experiment, whose rows are entered into the run store."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.importers.metric_facts import Declared, metric_facts
from pytest_crucible.importers.packed_rows import RowColumns
from pytest_crucible.importers.results import Call, ImportedFile, Results, Row
from pytest_crucible.plan.design import (
    check_expected,
    check_repeats,
    contrasts_with_baselines,
    group_count,
    plan_metrics,
    without_unfounded_claim,
)
from pytest_crucible.plan.targets import contrast_of_unnamed, with_declarations, with_last_metrics
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    Arm,
    Contrast,
    Dataset,
    Fingerprint,
    Lost,
    MetricFacts,
    ModelCall,
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
from pytest_crucible.records.plan import EQUAL_INPUTS, IMPORTED, LEFT_OUT
from pytest_crucible.records.serialize import canonical, pick
from pytest_crucible.records.settings import DEFAULT_ALPHA
from pytest_crucible.report.plan_lines import equal_input_lines
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.runs.imported_samples import (
    can_leave_texts_out,
    group_questions,
    load_samples,
    planned_repeats,
    samples_without_texts,
)
from pytest_crucible.runs.imported_tasks import Task, common_settings, group_tasks
from pytest_crucible.runs.provenance import environment_facts, utc_now
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer

if TYPE_CHECKING:
    from pytest_crucible.store.sample_batches import Batches


@dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """Files of other harnesses, with the tasks, targets and comparisons to decide on them."""

    files: Sequence[ImportedFile]
    tasks: Sequence[ImportedTask]
    alpha: float

    @classmethod
    def of(cls, files: Sequence[ImportedFile], wishes: ImportOptions) -> ImportedRun:
        """Plan the tasks of the files, before any store is opened. Raises SpecError for invalid options."""
        grouped = group_tasks(
            files, wishes.arms, wishes.candidate, unpaired=wishes.unpaired, arms_differ_in=wishes.arms_differ_in
        )
        tasks = [ImportedTask.of(task, files, wishes) for task in grouped]
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
                enter_task(store, run, writer, task.task, task.plan, task.samples, without_rows=task.without_texts)
        batches = {task.plan.nodeid: task.batches(store) for task in self.tasks if task.without_texts}
        return conclude(
            store, run, alpha=self.alpha, strict=False, interrupted=False, amend=lambda verdict: None, batches=batches
        )

    def evaluate_unstored(self) -> Run:
        """Return the run with its verdicts, as `enter` does, but do not store it."""
        with tempfile.TemporaryDirectory() as folder:
            # A temporary store, so that the analysis is the same as that of a stored run. Nothing but this process reads it:
            # what features add to stored runs, such as seals of their rows, would be a third of its time.
            location = f"{folder}/compared.db"
            with contextlib.closing(RunStore(location, is_left_out=lambda plugin: True)) as store:
                run = self.enter(store)
        return replace(run, id=" vs ".join(Path(file.path).name for file in self.files), store="")


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
    equal_inputs: str = "group"
    unpaired: bool = False
    """Each arm has samples of its own."""
    arms_differ_in: tuple[str, ...] = ()
    """The settings that the arms are compared for, as in the marker."""
    keeps_texts: bool = True
    """False where the run is not stored: texts that its analysis does not use are then not read."""


@dataclass(frozen=True, kw_only=True)
class ImportedTask:
    """One task of imported files, with its plan and samples."""

    task: Task
    plan: Plan
    samples: Sequence[Sample]
    notes: tuple[str, ...]
    without_texts: bool = False
    """Its samples have no texts, and its scores are analysed as they were read: nothing of them is entered."""

    @classmethod
    def of(cls, task: Task, files: Sequence[ImportedFile], wishes: ImportOptions) -> ImportedTask:
        """Plan one task. Raises SpecError for targets and comparisons that do not fit it."""
        without_texts = not wishes.keeps_texts and can_leave_texts_out(task, wishes.contrasts)
        rows = samples_without_texts(task) if without_texts else load_samples(task)
        facts, assumed = metric_facts(task.arms, wishes.declared)
        contrasts_of_task = _contrasts(wishes.contrasts, task, facts) if len(task.arms) > 1 else []
        named = (target for target in wishes.targets if set(target.metrics) <= {fact.name for fact in facts})
        targets = with_last_metrics(named, facts)
        plan_metrics(facts, targets, contrasts_of_task, open_metrics=False)
        check_expected(targets, contrasts_of_task, rows.samples)
        # The table of comparisons reports it for those without a verdict.
        estimated = {contrast.metric for contrast in contrasts_of_task if not contrast.decides}
        decisive = {name for claim in (*contrasts_of_task, *targets) for name in claim.metrics} or set(assumed)
        assumptions = [sentence for name, sentence in assumed.items() if name in decisive - estimated]
        path = next(file.path for file in files if task.name in {results.task for results in file.results})
        has_groups = wishes.equal_inputs == "group" and not without_texts
        dataset, equal = group_questions(task, rows) if has_groups else (rows, None)
        plan = _plan(task, path, dataset, rows.sha256, facts, targets, contrasts_of_task)
        plan = replace(EQUAL_INPUTS.on(plan, equal), arms_differ_in=wishes.arms_differ_in)
        check_repeats(targets, contrasts_of_task, plan.repeats)
        grouped = [f"task {task.name!r}: {line.strip()}" for line in equal_input_lines(plan)]
        notes = (*task.notes, *_repeats(task, plan.repeats), *grouped, *assumptions)
        return cls(task=task, plan=plan, samples=dataset.samples, notes=notes, without_texts=without_texts)

    def batches(self, store: RunStore) -> Batches:
        """Return the outcomes of a task without texts. The store redacts their ids and messages."""
        # Loaded for a task of so many rows.
        from pytest_crucible.runs.imported_batches import ImportedBatches

        return ImportedBatches(self.task, self.plan, self.samples, store)


def _plan(
    task: Task,
    path: str,
    dataset: Dataset,
    rows_sha256: str,
    facts: tuple[MetricFacts, ...],
    targets: tuple[Target, ...],
    contrasts_of_task: Sequence[Contrast],
) -> Plan:
    arms, n = tuple(_arm(number, results) for number, results in enumerate(task.arms)), len(dataset.samples)
    metrics = _sha([metric.name for metric in facts])
    plan = Plan(
        nodeid=f"{IMPORTED}{task.name}",
        path=path,
        line=0,
        dataset=dataset.name,
        dataset_sha256=dataset.sha256,
        planned=n,
        selected=n,
        groups=group_count(dataset),
        # Repeats are paired between arms; `_repeats` notes those that are left out.
        repeats=planned_repeats(task),
        arms=arms,
        metrics=facts,
        targets=targets,
        contrasts=contrasts_with_baselines(contrasts_of_task, arms, dataset.samples),
        fingerprint=Fingerprint(dataset=rows_sha256, function=_sha(task.name), metrics=metrics, sampling=""),
        open_metrics=False,
    )
    return LEFT_OUT.on(plan, task.left_out)


def _arm(number: int, results: Results) -> Arm:
    """Return an arm whose identity is its file, which does not show which weights answered."""
    role: Role = "baseline" if number else "candidate"
    return Arm(
        name=results.arm,
        role=role,
        adapter=results.arm,
        identity=results.identity,
        parameters=common_settings(results.rows),
        settings=results.weights,
        recorded=True,
    )


def names_of(arm: Results) -> set[str]:
    """Return the names of the metrics that an arm has."""
    return {*RowColumns.of(arm.rows).metrics}


def _contrasts(chosen: Sequence[Contrast], task: Task, facts: Sequence[MetricFacts]) -> list[Contrast]:
    """Return the chosen comparisons that the task allows, or else one for each metric that all arms have."""
    has = [names_of(arm) for arm in task.arms]
    common = [metric.name for metric in facts if metric.kind != "text" and all(metric.name in names for names in has)]
    distinct = [name for name in common if not _repeats_claim(name, task.arms)]
    by_name = {metric.name: metric for metric in facts}
    contrasts = chosen or [
        contrast_of_unnamed(
            by_name[name], (value for arm in task.arms for value in RowColumns.of(arm.rows).values(name))
        )
        for name in distinct
    ]
    possible = [contrast for contrast in contrasts if set(contrast.metrics) <= set(common)]
    decidable = (without_unfounded_claim(contrast, by_name[contrast.metric]) for contrast in possible)
    return [replace(contrast, unpaired=task.unpaired) for contrast in with_declarations(decidable, facts)]


def _repeats_claim(name: str, arms: Sequence[Results]) -> bool:
    """Return whether a metric has the values of another one in every row, as a harness that derives it from that has it."""
    other = next((arm.one_claim[name] for arm in arms if name in arm.one_claim), None)
    rows = (row for arm in arms for row in arm.rows if not row.error)
    return other is not None and all(row.scores.get(name) == row.scores.get(other) for row in rows)


def _repeats(task: Task, repeats: int) -> Iterator[str]:
    for arm in task.arms:
        if arm.repeats > repeats:
            yield f"task {task.name!r}: {arm.arm!r} has {arm.repeats} repeats and another arm {repeats}: the others are left out"


def _sha(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def enter_task(
    store: RunStore,
    run: str,
    writer: Writer,
    task: Task,
    plan: Plan,
    samples: Sequence[Sample],
    *,
    without_rows: bool,
) -> None:
    """Enter one task as an experiment of a run; `without_rows` enters no samples and replies."""
    key = store.add_experiment(run, plan, () if without_rows else samples)
    positions = {} if without_rows else {sample: position for position, sample in enumerate(task.samples)}
    for number, (arm, results) in enumerate(zip(plan.arms, task.arms, strict=True)):
        entered = store.add_arm(key, number, arm.name, "")
        if without_rows:
            continue
        for row in results.rows:
            position = positions.get(row.sample)
            if position is None or row.repeat >= plan.repeats:
                continue
            outcome, scored, lost = _outcome(row, Unit(position, 0, number, row.repeat), plan.facts)
            writer.add(replace(outcome, calls=_calls(row, arm), sample=samples[position]), entered, scored, lost)
            # Rows are read faster than they are written, and those that wait take memory.
            if writer.behind():
                writer.flush()
        for unit in _not_planned(task, plan, number):
            writer.add(Outcome(unit, skipped=True), entered, [], [])
    if all(arm.finished for arm in task.arms):
        store.finish_experiment(key)


def _outcome(row: Row, unit: Unit, facts: Mapping[str, MetricFacts]) -> tuple[Outcome, list[Observation], list[Lost]]:
    if row.error:
        return Outcome(unit, lost="error", detail=row.error), [], [Lost(unit, None, "error", row.error)]
    scored = [Observation(unit, name, _value(value, facts[name])) for name, value in row.scores.items()]
    lost = [Lost(unit, name, "scorer", why) for name, why in row.lost.items()]
    return Outcome(unit, reply=row.reply), scored, lost


def _calls(row: Row, arm: Arm) -> list[ModelCall]:
    """Return the requests of a row: the first with its prompt, later ones, whose messages contain replies, without."""
    if row.prompt is None and not row.calls:
        return []
    is_text = row.prompt is None or isinstance(row.prompt, str)
    text = (row.prompt or "") if is_text else canonical(row.prompt)
    first, *later = row.calls or (row,)
    calls = [ModelCall(text, not is_text, 1, _own(first, arm), "", reply=first.reply, error=row.error)]
    return calls + [ModelCall("", False, 1, _own(call, arm), "", reply=call.reply) for call in later]


def _own(request: Row | Call, arm: Arm) -> Mapping[str, Any] | None:
    """Return the settings of a request that differ between the requests of an arm; None for those of the arm."""
    return None if request.parameters == arm.parameters else request.parameters


def _not_planned(task: Task, plan: Plan, number: int) -> Iterator[Unit]:
    """Yield what an arm was not meant to have: samples of other arms, and repeats where samples have different numbers of them."""
    results = task.arms[number]
    if not (task.unpaired or results.has_uneven_repeats):
        return
    columns, samples = RowColumns.of(results.rows), set(task.samples)
    there = {
        (sample, repeat)
        for sample, repeat in zip(columns.samples, columns.repeats, strict=True)
        if sample in samples and repeat < plan.repeats
    }
    own = {sample for sample, _ in there}.union(results.planned)
    for position, sample in enumerate(task.samples):
        is_other = task.unpaired and sample not in own
        for repeat in range(plan.repeats):
            # Of a sample that was not reached, the first repeat is lost.
            is_missing = results.has_uneven_repeats and repeat and (sample, repeat) not in there
            if is_other or is_missing:
                yield Unit(position, 0, number, repeat)


def _value(value: Value | None, facts: MetricFacts) -> Value | None:
    if value is None:
        return None
    return str(value) if facts.kind == "text" else bool(value) if facts.kind == "binary" else float(value)
