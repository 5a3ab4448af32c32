"""Results of other harnesses as a run of our own: stored, analysed and judged as if a session had asked."""

from __future__ import annotations

import hashlib
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_crucible.conclusion import conclude, now
from pytest_crucible.datasets import identify
from pytest_crucible.environment import environment
from pytest_crucible.errors import SpecError
from pytest_crucible.importing.facts import Declared, metric_facts
from pytest_crucible.importing.joined import Task, joined
from pytest_crucible.importing.results import Imported, Results, Row
from pytest_crucible.plan.design import contrasts, group_count, judged_facts
from pytest_crucible.records import (
    Arm,
    Contrast,
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
    Value,
)
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer
from pytest_crucible.wire import canonical

DEFAULT_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What is asked of the files."""

    arms: Sequence[str] = ()
    candidate: str = ""
    targets: Sequence[Target] = ()
    contrasts: tuple[Contrast, ...] = ()
    """Without a baseline. None: of every metric that all arms have."""
    declared: Declared = field(default_factory=Declared)
    alpha: float = DEFAULT_ALPHA


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """Files, with all that is asked of them settled."""

    files: Sequence[Imported]
    tasks: Sequence[_Adopted]
    alpha: float

    @classmethod
    def of(cls, files: Sequence[Imported], wishes: Wishes) -> Adoption:
        """Raises SpecError for what cannot be meant, before there is any store."""
        tasks = [_Adopted.of(task, files, wishes) for task in joined(files, wishes.arms, wishes.candidate)]
        _check_named(wishes, tasks)
        return cls(files=files, tasks=tasks, alpha=wishes.alpha)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of what was read."""
        said = [*(file.notes for file in self.files), *(one.notes for one in self.tasks)]
        return tuple(dict.fromkeys(chain.from_iterable(said)))

    def enter(self, store: RunStore) -> Run:
        """Store, analyse and judge."""
        run, told = secrets.token_hex(6), {**environment(), "imported": [_origin(file) for file in self.files]}
        facts = {"started": now(), "seed": 0, "alpha": self.alpha, "correction": "holm", "git": None}
        store.begin_run(run, **facts, environment=told)
        writer = store.writer()
        try:
            for one in self.tasks:
                one.enter(store, run, writer)
        finally:
            writer.close()
        return conclude(store, run, alpha=self.alpha, strict=False, interrupted=False, amend=lambda verdict: None)

    def judged(self) -> Run:
        """The same, stored nowhere."""
        with tempfile.TemporaryDirectory() as folder:
            store = RunStore(str(Path(folder) / "compared.db"))
            try:
                run = self.enter(store)
            finally:
                store.close()
        return replace(run, id=" vs ".join(Path(file.path).name for file in self.files), store="")


def _origin(file: Imported) -> dict[str, Any]:
    return {"file": file.path, "sha256": file.sha256, "harness": file.harness, "version": file.version}


@dataclass(frozen=True, kw_only=True)
class _Adopted:
    """One task, planned."""

    task: Task
    plan: Plan
    samples: tuple[Sample, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, task: Task, files: Sequence[Imported], wishes: Wishes) -> _Adopted:
        samples = _samples(task)
        dataset = identify(task.name, samples)
        facts, assumed = metric_facts(task.arms, wishes.declared)
        arms = tuple(_arm(number, one) for number, one in enumerate(task.arms))
        asked = _asked(wishes.contrasts, _compared(task, facts)) if len(arms) > 1 else ()
        judged = {one.metric for one in (*asked, *wishes.targets)} or set(assumed)
        said = [sentence for name, sentence in assumed.items() if name in judged]
        epochs = min(one.epochs for one in task.arms)
        plan = Plan(
            nodeid=f"imported::{task.name}",
            path=next(file.path for file in files if task.arms[0].task in {one.task for one in file.results}),
            line=0,
            dataset=task.name,
            dataset_sha256=dataset.sha256,
            planned=len(samples),
            selected=len(samples),
            groups=group_count(dataset),
            epochs=epochs,
            arms=arms,
            metrics=facts,
            targets=tuple(one for one in wishes.targets if one.metric in {fact.name for fact in facts}),
            contrasts=contrasts(asked, arms),
            fingerprint=Fingerprint(
                dataset=dataset.sha256, function=_sha(task.name), metrics=_sha([one.name for one in facts]), sampling=""
            ),
            open_metrics=False,
        )
        judged_facts(facts, plan.targets, asked, open_metrics=False)
        return cls(task=task, plan=plan, samples=samples, notes=(*task.notes, *_repeats(task, epochs), *said))

    def enter(self, store: RunStore, run: str, writer: Writer) -> None:
        key = store.add_experiment(run, self.plan, self.samples)
        positions = {sample.id: position for position, sample in enumerate(self.samples)}
        kinds = {facts.name: facts for facts in self.plan.metrics}
        for number, (arm, results) in enumerate(zip(self.plan.arms, self.task.arms, strict=True)):
            entered = store.add_arm(key, number, arm.name, "")
            for row in results.rows:
                if row.sample in positions and row.epoch < self.plan.epochs:
                    writer.add(*_observed(row, number, positions[row.sample], entered, kinds))
        if all(one.finished for one in self.task.arms):
            store.finish_experiment(key)


def _samples(task: Task) -> tuple[Sample, ...]:
    """As the candidate was asked them; one that it did not reach, as another arm was."""
    rows = {row.sample: row for one in reversed(task.arms) for row in reversed(one.rows)}
    found = ((name, rows.get(name)) for name in task.samples)
    return tuple(
        Sample(id=name, input=row.input, expected=row.expected, group=row.group) if row else Sample(id=name, input=None)
        for name, row in found
    )


def _arm(number: int, results: Results) -> Arm:
    """Its identity is the file that it is in: which weights answered, nobody knows here."""
    role: Role = "baseline" if number else "candidate"
    return Arm(name=results.arm, role=role, adapter=results.arm, identity=results.identity)


def _compared(task: Task, facts: Sequence[MetricFacts]) -> list[str]:
    """Metrics that every arm has a value of."""
    has = [{name for row in one.rows for name in (*row.scores, *row.lost)} for one in task.arms]
    return [one.name for one in facts if one.kind != "text" and all(one.name in names for names in has)]


def _asked(contrasts: Sequence[Contrast], known: Sequence[str]) -> list[Contrast]:
    wanted = contrasts or [Contrast(metric=name, baseline="") for name in known]
    return [one for one in wanted if one.metric in known]


def _repeats(task: Task, epochs: int) -> Iterator[str]:
    for one in task.arms:
        if one.epochs > epochs:
            yield f"task {task.name!r}: {one.arm!r} has {one.epochs} repeats and another arm {epochs}: the others are left out"


def _observed(
    row: Row, number: int, position: int, arm: int, facts: Mapping[str, MetricFacts]
) -> tuple[Outcome, int, list[Observation], list[Lost]]:
    """As the judge hands over what it has scored."""
    place = (number, position, row.epoch)
    if row.error:
        outcome = Outcome(arm=number, position=position, epoch=row.epoch, lost="error", detail=row.error)
        return outcome, arm, [], [Lost(*place, None, "error", row.error)]
    scored = [Observation(*place, name, _value(value, facts[name])) for name, value in row.scores.items()]
    lost = [Lost(*place, name, "scorer", why) for name, why in row.lost.items()]
    return Outcome(arm=number, position=position, epoch=row.epoch, reply=row.reply), arm, scored, lost


def _value(value: Value | None, facts: MetricFacts) -> Value | None:
    if value is None:
        return None
    return str(value) if facts.kind == "text" else bool(value) if facts.kind == "binary" else float(value)


def _check_named(wishes: Wishes, adopted: Sequence[_Adopted]) -> None:
    """Raises SpecError for a metric that no file has."""
    known = {one.name for each in adopted for one in each.plan.metrics}
    named = dict.fromkeys([*wishes.declared.names, *(one.metric for one in wishes.contrasts)], "there is no")
    named |= {one.metric: f"target {one.text!r} names" for one in wishes.targets}
    for name, what in named.items():
        if name not in known:
            raise SpecError(f"{what} metric {name!r}: the files have {', '.join(sorted(known))}")


def _sha(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()
