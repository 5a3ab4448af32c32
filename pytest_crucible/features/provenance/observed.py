"""Events that a session observes anyway, as kinds of provenance: trainings, checkpoints, requests and observations.

They are computed from the tables `events`, `observations` and `runs`, and stored nowhere else.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.lineage import arm_lineages
from pytest_crucible.features.provenance.load_decisions import Chain
from pytest_crucible.store import tables
from pytest_crucible.store.runs import RunStore

Observed = tuple[Chain, Decision]
Loader = Callable[[RunStore, str], Iterator[Observed]]


def load_observed(store: RunStore, run: str, named: Collection[str]) -> Iterator[Observed]:
    """Yield the observed events of some kinds, each with the arm and the sample that it is about; empty where it is about none.

    Those of one kind are numbered from 1 in the order in which they were stored.
    """
    numbers = dict.fromkeys(named, 0)
    for loader in dict.fromkeys(_LOADERS[kind] for kind in named if kind in _LOADERS):
        for chain, event in loader(store, run):
            if event.kind in numbers:
                numbers[event.kind] += 1
                yield chain, _number_event(event, numbers[event.kind])


def _number_event(event: Decision, number: int) -> Decision:
    return Decision(number=number, kind=event.kind, decision=event.decision, at=event.at)


def _observe(
    kind: str, text: str, at: float | None, *, arm: str = "", experiment: str = "", sample: str = "", repeat: int = 0
) -> Observed:
    chain = Chain(experiment=experiment, arm=arm, sample=sample, repeat=repeat, variant="", decisions=())
    return chain, Decision(number=0, kind=kind, decision=text, at=at)


def _trainings(store: RunStore, run: str) -> Iterator[Observed]:
    started: set[str] = set()
    for row in _events(store, run, ("train.step", "checkpoint")):
        arm, facts, at = row["arm"], row["facts"] or {}, row["at"]
        if row["name"] == "checkpoint":
            yield _observe("checkpoint_saved", str(facts.get("path")), at, arm=arm)
            yield _observe("training_completed", f"{facts.get('steps')} steps", at, arm=arm)
            continue
        if arm not in started:
            started.add(arm)
            yield _observe("training_started", str(arm), at - (row["seconds"] or 0.0), arm=arm)
        step = f"step {facts.get('step')}"
        yield _observe("batch_processed", f"{step}: {facts.get('tokens')} tokens", at, arm=arm)
        for kind, name in (("loss_computed", "loss"), ("gradient_computed", "gradient_norm")):
            if facts.get(name) is not None:
                yield _observe(kind, f"{step}: {facts[name]:g}", at, arm=arm)
        if "advantage" in facts:
            yield _observe("experience_sampled", f"{step}: {facts['samples']} samples", at, arm=arm)
            yield _observe("reward_received", f"{step}: mean advantage {facts['advantage']:g}", at, arm=arm)
            yield _observe("policy_updated", step, at, arm=arm)


def _requests(store: RunStore, run: str) -> Iterator[Observed]:
    answered: set[str] = set()
    for row in _events(store, run, ("request.stop",)):
        if row["error"] is not None or not row["experiment"]:
            continue
        place = {name: row[name] for name in ("arm", "experiment", "sample", "repeat")}
        if row["arm"] not in answered:
            answered.add(row["arm"])
            yield _observe("model_loaded", row["arm"], row["at"] - (row["seconds"] or 0.0), arm=row["arm"])
        yield _observe("inference_completed", f"answered after {row['seconds'] or 0.0:.3g} s", row["at"], **place)


def _events(store: RunStore, run: str, names: Collection[str]) -> Iterator[Mapping[str, Any]]:
    table = tables.events(store, run)
    rows = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    return (row for row in rows if row["name"] in names)


def _observations(store: RunStore, run: str) -> Iterator[Observed]:
    table = tables.observations(store, run)
    for row in table.rows:
        values = dict(zip(table.columns, row, strict=True))
        value = values["value"] if values["label"] is None else values["label"]
        if values["lost"] is None and value is not None:
            place = {name: values[name] for name in ("arm", "experiment", "sample", "repeat")}
            yield _observe("metric_recorded", f"{values['metric']} = {value}", None, **place)


def _arms(store: RunStore, run: str) -> Iterator[Observed]:
    row = store.run(run)
    opened, closed = (_seconds(row[name]) for name in ("started", "finished"))
    arms = {arm.name: arm for _, plan, _ in store.all_experiments(run) for arm in plan.arms}
    for arm in arms.values():
        for lineage in arm_lineages(arm):
            parents = (each.parent for each in lineage.chain)
            for parent in filter(None, parents):
                yield _observe("checkpoint_loaded", str(parent.weights), None, arm=arm.name)
        yield _observe("deployment_started", f"adapter {arm.adapter}", opened, arm=arm.name)
        if closed is not None:
            yield _observe("deployment_completed", f"adapter {arm.adapter}", closed, arm=arm.name)


def _seconds(moment: str | None) -> float | None:
    return None if moment is None else datetime.datetime.fromisoformat(moment).timestamp()


_LOADERS: Mapping[str, Loader] = {
    **dict.fromkeys(("training_started", "training_completed", "batch_processed", "checkpoint_saved"), _trainings),
    **dict.fromkeys(("loss_computed", "gradient_computed"), _trainings),
    **dict.fromkeys(("experience_sampled", "reward_received", "policy_updated"), _trainings),
    **dict.fromkeys(("model_loaded", "inference_completed"), _requests),
    "metric_recorded": _observations,
    **dict.fromkeys(("checkpoint_loaded", "deployment_started", "deployment_completed"), _arms),
}
