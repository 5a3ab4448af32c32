"""The part of one sample in the verdicts of a run: its scores and replies as nodes of their own, and its weight in each verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_crucible.features.provenance.graph import Graph, GraphDraft
from pytest_crucible.features.provenance.influence import weigh_sample
from pytest_crucible.features.provenance.load_timeline import near_sample
from pytest_crucible.features.provenance.questions import Asked, load_questions
from pytest_crucible.features.provenance.verdict_facts import SampleWeight
from pytest_crucible.records import Plan, Run
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import pick, to_plain
from pytest_crucible.store.outcomes import variant_keys
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import find_position, load_sample


def build_sample_graph(store: RunStore, run: Run, sample: str, suite: str = "") -> Graph:
    """Return the verdicts that a sample enters with its scores in each. `suite` is a part of the experiment's name.

    Raises SpecError for a sample that no experiment of the run has.
    """
    draft = GraphDraft()
    positions = _positions(store, run, sample, suite)
    if not positions:
        nodeids = [analysis.plan.nodeid for analysis in run.experiments]
        if not any(suite in nodeid for nodeid in nodeids):
            raise SpecError(
                f"run {run.id} has no experiment whose name contains {suite!r}: it has {', '.join(nodeids)}"
            )
        raise SpecError(f"run {run.id} has no sample {sample!r}: {near_sample(store, run.id, sample)}")
    keys = {plan.nodeid: key for key, plan, _ in store.experiments(run.id)}
    of_experiments = {(each.nodeid, each.subject) for each in run.verdicts if each.nodeid in positions}
    for entry in load_questions(store, run, of_experiments):
        nodeid = entry.verdict.nodeid
        _add_verdict(draft, store, keys[nodeid], entry, positions[nodeid])
    return draft.build()


def _positions(store: RunStore, run: Run, sample: str, suite: str) -> dict[str, int]:
    """Return the sample's place in the dataset of each experiment that has it."""
    plans = [analysis.plan for analysis in run.experiments if suite in analysis.plan.nodeid]
    positions = {plan.nodeid: find_position(store, plan.dataset_sha256, sample) for plan in plans}
    return {nodeid: position for nodeid, position in positions.items() if position is not None}


def _add_verdict(draft: GraphDraft, store: RunStore, experiment: int, entry: Asked, position: int) -> None:
    verdict, plan, question = entry.verdict, entry.analysis.plan, entry.question
    weight = weigh_sample(question, position) if question is not None else None
    facts = pick(verdict, "nodeid subject kind state proven reason")
    part = {**_plain_weight(weight), "no_part": _why_no_part(entry, weight)}
    key = draft.entity("verdict", f"{verdict.nodeid}::{verdict.subject}", verdict.subject, **facts, **part)
    if question is not None and weight is not None:
        for number in question.numbers:
            for observation in _add_observations(
                draft, store, experiment, plan, number, position, question.measure.metric
            ):
                draft.relate(key, "derived from", observation)


def _plain_weight(weight: SampleWeight | None) -> dict[str, Any]:
    names = ("weight", "n", "value", "state_without", "proven_without", "decides_alone")
    return dict.fromkeys(names) if weight is None else {name: to_plain(getattr(weight, name)) for name in names}


def _why_no_part(entry: Asked, weight: SampleWeight | None) -> str | None:
    if weight is not None:
        return None
    return entry.undefined or "its score is lost in an arm, or the metric does not apply to it"


def _add_observations(
    draft: GraphDraft, store: RunStore, experiment: int, plan: Plan, number: int, position: int, metric: str
) -> Iterator[str]:
    """Add the sample's scores in an arm, one for each reply, with the replies; yield their keys.

    A failed reply without a score is counted as the worst, and yields its own key.
    """
    arm, stored = plan.arms[number].name, load_sample(store, plan.dataset_sha256, position)
    name, group = stored["sample_id"], stored["sample_group"]
    sample = draft.entity("sample", f"{plan.dataset_sha256}::{name}", name, group=group, position=position)
    query = """
        SELECT replies.epoch, observations.arm, observations.value, replies.failure, (
            SELECT MIN(paid_by) FROM calls
            WHERE calls.arm = replies.arm AND calls.position = replies.position AND calls.epoch = replies.epoch
        )
        FROM replies LEFT JOIN observations
            ON observations.arm = replies.arm AND observations.position = replies.position
            AND observations.epoch = replies.epoch AND observations.metric = :metric
        WHERE replies.arm = :arm AND replies.position = :position
    """
    for key, variant in variant_keys(store, experiment, number):
        for repeat, scored, value, failure, paid_by in store.rows(query, arm=key, position=position, metric=metric):
            if scored is None and failure is None:
                continue
            place = f"{plan.nodeid}::{arm}::{name}::{plan.draws(number).place(variant, repeat)}"
            reply = draft.entity("reply", place, f"reply of {arm} to {name}", arm=arm, failure=failure, paid_by=paid_by)
            draft.relate(reply, "derived from", sample)
            if scored is None:
                yield reply
                continue
            label = f"{metric} of {arm} on {name}"
            observation = draft.entity("observation", f"{place}::{metric}", label, arm=arm, metric=metric, value=value)
            draft.relate(observation, "derived from", reply)
            yield observation
