"""Results of other harnesses as a run of our own: stored, analysed and judged as if a session had asked."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_crucible.adopted import Adopted, Wishes
from pytest_crucible.conclusion import conclude
from pytest_crucible.environment import environment, now
from pytest_crucible.errors import SpecError
from pytest_crucible.importing.joined import joined
from pytest_crucible.importing.results import Imported, Row
from pytest_crucible.records import Lost, MetricFacts, Observation, Outcome, Run, Value
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """Files, with all that is asked of them settled."""

    files: Sequence[Imported]
    tasks: Sequence[Adopted]
    alpha: float

    @classmethod
    def of(cls, files: Sequence[Imported], wishes: Wishes) -> Adoption:
        """Raises SpecError for what cannot be meant, before there is any store."""
        tasks = [Adopted.of(task, files, wishes) for task in joined(files, wishes.arms, wishes.candidate)]
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
                _enter(one, store, run, writer)
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


def _enter(adopted: Adopted, store: RunStore, run: str, writer: Writer) -> None:
    key = store.add_experiment(run, adopted.plan, adopted.samples)
    positions = {sample.id: position for position, sample in enumerate(adopted.samples)}
    kinds = {facts.name: facts for facts in adopted.plan.metrics}
    for number, (arm, results) in enumerate(zip(adopted.plan.arms, adopted.task.arms, strict=True)):
        entered = store.add_arm(key, number, arm.name, "")
        for row in results.rows:
            if row.sample in positions and row.epoch < adopted.plan.epochs:
                writer.add(*_observed(row, number, positions[row.sample], entered, kinds))
    if all(one.finished for one in adopted.task.arms):
        store.finish_experiment(key)


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


def _check_named(wishes: Wishes, adopted: Sequence[Adopted]) -> None:
    """Raises SpecError for a metric that no file has."""
    known = {one.name for each in adopted for one in each.plan.metrics}
    named = dict.fromkeys([*wishes.declared.names, *(one.metric for one in wishes.contrasts)], "there is no")
    named |= {one.metric: f"target {one.text!r} names" for one in wishes.targets}
    for name, what in named.items():
        if name not in known:
            raise SpecError(f"{what} metric {name!r}: the files have {', '.join(sorted(known))}")
