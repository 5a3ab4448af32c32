"""Adds to a graph what replies and scores were made from: dataset, test, metrics, commit, and adapters with their files."""

from __future__ import annotations

from typing import Any

from pytest_crucible.features.provenance.graph_draft import GraphDraft
from pytest_crucible.records import Arm, Plan, Run
from pytest_crucible.store.database import from_json
from pytest_crucible.store.runs import RunStore

UNKNOWN = "unknown"
"""The name of a node for what the store lacks."""


def add_suite(draft: GraphDraft, plan: Plan) -> list[str]:
    """Add the dataset and the test, and return their keys."""
    dataset = {"name": plan.dataset, "sha256": plan.dataset_sha256, "samples": plan.selected}
    # Of an imported experiment it is a hash of the task's name: no source is known.
    sha256 = None if plan.is_imported else plan.fingerprint.function or None
    return [
        draft.entity("dataset", plan.dataset_sha256, plan.dataset, **dataset),
        draft.entity("test", sha256 or UNKNOWN, plan.nodeid, path=plan.path, sha256=sha256),
    ]


def add_metrics(draft: GraphDraft, plan: Plan) -> str:
    """Add all metrics of an experiment, which have one hash, and return their key."""
    sha256, names = plan.fingerprint.metrics or None, [facts.name for facts in plan.metrics]
    return draft.entity("metrics", sha256 or UNKNOWN, ", ".join(names), names=names, sha256=sha256)


def add_commit(draft: GraphDraft, store: RunStore, run: str | None) -> str:
    """Add the commit of a run, and return its key. It is unknown where the run is not stored any more."""
    git: dict[str, Any] = from_json(store.scalar("SELECT git FROM runs WHERE id = :run", run=run)) or {}
    commit, dirty = git.get("commit"), git.get("dirty")
    return draft.entity("commit", commit or UNKNOWN, commit or UNKNOWN, commit=commit, dirty=dirty)


def add_imported_files(draft: GraphDraft, run: Run) -> list[str]:
    """Add the files that a run was imported from, and return their keys."""
    files = run.environment.get("imported", ())
    return [add_file(draft, each["sha256"], each["file"], harness=each["harness"]) for each in files]


def add_file(draft: GraphDraft, sha256: str, name: str, **facts: Any) -> str:
    """Add a file by its hash, and return its key."""
    return draft.entity("file", sha256, name, name=name, sha256=sha256, **facts)


def add_adapter(draft: GraphDraft, arm: Arm) -> str:
    """Add the adapter of an arm with the files that it was trained on, and return its key."""
    facts = {"name": arm.name, "adapter": arm.adapter, "identity": arm.identity, "parameters": dict(arm.parameters)}
    key = draft.entity("adapter", arm.identity or arm.name, arm.name, **facts, settings=dict(arm.settings))
    for sha256, name in arm.trained_on.items():
        draft.relate(key, "derived from", add_file(draft, sha256, name))
    return key
