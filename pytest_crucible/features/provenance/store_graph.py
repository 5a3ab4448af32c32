"""The graph of all runs of a store: which replies were made by which adapters, and from which files and commits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.backends.lineages import trained_adapters
from pytest_crucible.features.provenance.graph import GraphDraft
from pytest_crucible.features.provenance.made_from import (
    ArmLineage,
    add_adapter,
    add_commit,
    add_file,
    add_imported_files,
    add_suite,
    add_weights,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Ancestor, Lineage, Plan
from pytest_crucible.records.serialize import from_plain, pick
from pytest_crucible.store.database import from_json
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentNodes:
    """One experiment of one run, in the graph of its store."""

    key: int
    run: str
    plan: Plan
    replies: tuple[str, ...]
    """The node of the replies of each arm."""
    suite: tuple[str, ...]
    """The nodes of what all its verdicts are made from: dataset, test and files."""


def add_store(draft: GraphDraft, store: RunStore, adapters: Path) -> list[ExperimentNodes]:
    """Add all runs of a store, and the trainings in the folder `adapters`. Raises StoreError."""
    lineages = [trained.lineage for trained in trained_adapters(adapters)]
    for lineage in lineages:
        _add_training(draft, lineage, lineages)
    _add_runs(draft, store)
    payers, files = _payers(store), _opened_files(store)
    experiments = []
    for key, run, plain in store.rows("SELECT id, run, plan FROM experiments ORDER BY id"):
        plan = from_plain(Plan, from_json(plain))
        replies = tuple(
            _add_replies(draft, run, plan, number, payers.get((key, number), [run]), files)
            for number in range(len(plan.arms))
        )
        experiments.append(
            ExperimentNodes(key=key, run=run, plan=plan, replies=replies, suite=tuple(add_suite(draft, plan)))
        )
    _add_training_sets(draft, store, experiments)
    return experiments


def _add_training(draft: GraphDraft, lineage: Lineage, others: Iterable[Lineage]) -> None:
    """Add weights that were trained here, although no run may have used them."""
    weights = lineage.adapter_sha256 or lineage.checkpoint
    if not weights:
        return
    has_parent = any(lineage.parent in (each.adapter_sha256, each.checkpoint, each.state) for each in others)
    parent = ArmLineage(training=Ancestor(weights=lineage.parent)) if lineage.parent else None
    files = {sha256: name for names in (lineage.declared, lineage.data) for name, sha256 in names.items()}
    training = Ancestor(
        weights=weights,
        name=lineage.adapter.removeprefix("local:") or None,
        **pick(lineage, "recipe recipe_sha256 step"),
        state=lineage.state or None,
        files={sha256: name for sha256, name in files.items() if sha256 in lineage.training_files},
    )
    # A known parent has its files itself.
    earlier = {} if has_parent else lineage.inherited
    add_weights(draft, ArmLineage(training=training, parent=parent, earlier_files=earlier))
    draft.relate(f"training:{weights}", "used", add_commit(draft, lineage.git))


def _add_runs(draft: GraphDraft, store: RunStore) -> None:
    for run, started, git, environment in store.rows("SELECT id, started, git, environment FROM runs ORDER BY started"):
        key = draft.activity("run", run, f"run {run}", run=run, started=started)
        facts = from_json(environment)
        draft.relate(key, "used", add_commit(draft, from_json(git), is_recorded="imported" not in facts))
        for file in add_imported_files(draft, facts):
            draft.relate(key, "used", file)


def _payers(store: RunStore) -> dict[tuple[int, int], list[str]]:
    """Return the runs that requested the replies of arms, by experiment and number of the arm, if not the run itself alone."""
    payers: dict[tuple[int, int], list[str]] = defaultdict(list)
    query = """
        SELECT COALESCE(originals.experiment, arms.experiment), COALESCE(originals.number, arms.number), paid.run
        FROM (
            SELECT calls.arm, COALESCE(calls.paid_by, experiments.run) AS run FROM calls
            JOIN arms ON arms.id = calls.arm JOIN experiments ON experiments.id = arms.experiment
            WHERE calls.paid_by IS NULL OR calls.paid_by <> ''
            UNION SELECT id, reused_from FROM arms WHERE reused_from IS NOT NULL
        ) paid
        JOIN arms ON arms.id = paid.arm LEFT JOIN arms AS originals ON originals.id = arms.original
    """
    for experiment, number, run in store.rows(query):
        payers[experiment, number].append(run)
    return payers


def _opened_files(store: RunStore) -> dict[str, Mapping[str, str]]:
    """Return SHA-256 -> name of the files from which an adapter was opened, by its identity."""
    rows = store.rows("SELECT identity, files FROM known_adapters")
    return {identity: {sha256: name for name, sha256 in from_json(files).items()} for identity, files in rows}


def _add_replies(
    draft: GraphDraft,
    run: str,
    plan: Plan,
    number: int,
    payers: Sequence[str],
    files: Mapping[str, Mapping[str, str]],
) -> str:
    """Add the replies of an arm with its adapter, and return their key."""
    arm = plan.arms[number]
    adapter = add_adapter(draft, arm)
    for sha256, name in files.get(arm.identity, {}).items():
        draft.relate(adapter, "derived from", add_file(draft, sha256, name))
    key = draft.entity("replies", f"{run}::{plan.nodeid}::{arm.name}", f"replies of {arm.name}", run=run, arm=arm.name)
    draft.relate(key, "derived from", adapter)
    for payer in payers:
        draft.relate(key, "generated by", draft.activity("run", payer, f"run {payer}", run=payer, started=None))
    return key


def _add_training_sets(draft: GraphDraft, store: RunStore, experiments: Sequence[ExperimentNodes]) -> None:
    """Add the training sets that were exported from stored runs, which are files of adapters."""
    for sha256, name, plain in store.rows("SELECT sha256, name, card FROM training_sets"):
        card: Mapping[str, Any] = from_json(plain)
        key, replay = add_file(draft, sha256, name), card.get("replay") or {}
        if replay.get("sha256"):
            draft.relate(key, "derived from", add_file(draft, replay["sha256"], replay["file"]))
        for experiment in experiments:
            if experiment.run in card.get("runs", ()):
                for arm, replies in zip(experiment.plan.arms, experiment.replies, strict=True):
                    if arm.name in card.get("arms", ()):
                        draft.relate(key, "derived from", replies)
