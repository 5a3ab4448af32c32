"""Events that a session observes anyway, as kinds of provenance: trainings, checkpoints, requests and observations.

They are computed from the tables `events`, `observations` and `runs`, and stored nowhere else.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.load_decisions import Chain
from pytest_crucible.features.provenance.made_from import arm_lineages
from pytest_crucible.store import tables
from pytest_crucible.store.runs import RunStore

Place = tuple[str, str, str, int]
"""Experiment, arm, sample and repeat; each is empty or 0 for an event that is about none."""
Observed = tuple[Place, str, str, float | None]
"""The place of an event, its kind, its text and its time."""
Loader = Callable[[RunStore, str], Iterator[Observed]]


def load_observed(store: RunStore, run: str, named: Sequence[str]) -> list[Chain]:
    """Return the observed events of some kinds, by the reply or the arm that they are about."""
    chains: dict[Place, list[Decision]] = defaultdict(list)
    for loader in dict.fromkeys(_LOADERS[kind] for kind in named if kind in _LOADERS):
        for place, kind, text, at in loader(store, run):
            if kind in named:
                events = chains[place]
                events.append(Decision(number=len(events) + 1, kind=kind, decision=text, at=at))
    return [_chain(place, events) for place, events in chains.items()]


def _chain(place: Place, events: Sequence[Decision]) -> Chain:
    experiment, arm, sample, repeat = place
    return Chain(experiment=experiment, arm=arm, sample=sample, repeat=repeat, variant="", decisions=tuple(events))


def _observe(
    kind: str, text: str, at: float | None, *, arm: str, experiment: str = "", sample: str = "", repeat: int = 0
) -> Observed:
    return (experiment, arm, sample, repeat), kind, text, at


def _trainings(store: RunStore, run: str) -> Iterator[Observed]:
    started: set[str] = set()
    for row in _events(store, run, ("train.step", "checkpoint")):
        arm, facts, at = row["arm"], row["facts"] or {}, row["at"]
        if row["name"] == "checkpoint":
            yield _observe("checkpoint_saved", str(facts.get("path")), at, arm=arm)
            yield _observe("training_completed", f"{facts.get('steps')} steps", at, arm=arm)
            if facts.get("planned_steps", 0) > facts.get("steps", 0):
                text = f"after {facts['steps']} of {facts['planned_steps']} steps"
                yield _observe("early_stopped", text, at, arm=arm)
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
                yield _observe("checkpoint_loaded", str(parent.training.weights), None, arm=arm.name)
        yield _observe("deployment_started", f"adapter {arm.adapter}", opened, arm=arm.name)
        if closed is not None:
            yield _observe("deployment_completed", f"adapter {arm.adapter}", closed, arm=arm.name)


def _seconds(moment: str | None) -> float | None:
    return None if moment is None else datetime.datetime.fromisoformat(moment).timestamp()


_LOADERS: Mapping[str, Loader] = {
    **dict.fromkeys(("training_started", "training_completed", "batch_processed", "checkpoint_saved"), _trainings),
    **dict.fromkeys(("loss_computed", "gradient_computed", "early_stopped"), _trainings),
    **dict.fromkeys(("experience_sampled", "reward_received", "policy_updated"), _trainings),
    **dict.fromkeys(("model_loaded", "inference_completed"), _requests),
    "metric_recorded": _observations,
    **dict.fromkeys(("checkpoint_loaded", "deployment_started", "deployment_completed"), _arms),
}
