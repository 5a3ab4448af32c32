"""Adds to a graph what replies and scores were made from: dataset, test, commit, adapters and the lineage of their weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from pytest_crucible.features.provenance.graph import GraphDraft
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Ancestor, Arm, Plan
from pytest_crucible.records.serialize import pick
from pytest_crucible.store.database import from_json
from pytest_crucible.store.runs import RunStore

UNKNOWN = "unknown"
"""The name of a node for what the store lacks."""
OUTSIDE = "outside of a repository"
"""The name of a commit where there is none."""


def add_suite(draft: GraphDraft, plan: Plan) -> list[str]:
    """Add the dataset and the test, and return their keys."""
    rows = plan.fingerprint.dataset or None
    dataset = {"name": plan.dataset, "sha256": plan.dataset_sha256, "rows_sha256": rows, "samples": plan.selected}
    # Of an imported experiment it is a hash of the task's name: no source is known.
    sha256 = None if plan.is_imported else plan.fingerprint.function or None
    files = plan.origin.files if plan.origin else {}
    return [
        draft.entity("dataset", plan.dataset_sha256, plan.dataset, **dataset),
        draft.entity("test", sha256 or UNKNOWN, plan.nodeid, path=plan.path, sha256=sha256),
        *(add_file(draft, form.sha256, form.name, role="prompt") for form in plan.prompts),
        *(add_file(draft, digest, name) for name, digest in files.items()),
    ]


def add_metrics(draft: GraphDraft, plan: Plan) -> str:
    """Add all metrics of an experiment, which have one hash, and return their key."""
    sha256, names = plan.fingerprint.metrics or None, [facts.name for facts in plan.metrics]
    return draft.entity("metrics", sha256 or UNKNOWN, ", ".join(names), names=names, sha256=sha256)


def add_commit(draft: GraphDraft, git: Mapping[str, Any] | None, *, is_recorded: bool = True) -> str:
    """Add a commit, as runs and trainings record it, and return its key; what is not recorded is unknown."""
    facts = {name: (git or {}).get(name) for name in ("commit", "dirty")}
    name = facts["commit"] or (OUTSIDE if is_recorded else UNKNOWN)
    return draft.entity("commit", name, name, **facts)


def add_commit_of_run(draft: GraphDraft, store: RunStore, run: str | None) -> str:
    """Add the commit of a run, and return its key. It is unknown of imported runs, and of those that are not stored any more."""
    git, environment = store.first("SELECT git, environment FROM runs WHERE id = :run", run=run) or (None, None)
    is_recorded = environment is not None and "imported" not in from_json(environment)
    return add_commit(draft, from_json(git), is_recorded=is_recorded)


def add_imported_files(draft: GraphDraft, environment: Mapping[str, Any]) -> list[str]:
    """Add the files that a run was imported from, and return their keys."""
    files = environment.get("imported", ())
    return [add_file(draft, each["sha256"], each["file"], role="imported", harness=each["harness"]) for each in files]


def add_file(draft: GraphDraft, sha256: str, name: str, **facts: Any) -> str:
    """Add a file by its hash, and return its key."""
    return draft.entity("file", sha256, name, name=name, sha256=sha256, **facts)


def add_adapter(draft: GraphDraft, arm: Arm) -> str:
    """Add the adapter of an arm with the trainings behind its weights, and return its key."""
    facts = {"name": arm.name, "adapter": arm.adapter, "identity": arm.identity, "members": list(arm.members)}
    settings = {"parameters": dict(arm.parameters), "settings": dict(arm.settings), "simulated": arm.simulated}
    settings |= {"trained_on": list(arm.trained_on)}
    key = draft.entity("adapter", f"{arm.name} {arm.identity}", arm.name, **facts, **settings)
    for lineage in arm_lineages(arm):
        trained = lineage.training
        sources = [add_weights(draft, lineage)] if trained.weights else _add_files(draft, trained.files or {})
        for source in sources:
            draft.relate(key, "derived from", source)
    return key


def add_weights(draft: GraphDraft, lineage: ArmLineage) -> str:
    """Add weights with their training, and what this used, back to the first that is known; return their key."""
    trained = lineage.training
    weights = str(trained.weights)
    key = draft.entity("checkpoint", weights, trained.name or weights, **pick(trained, "weights name step state"))
    sources = _add_files(draft, {**lineage.earlier_files, **(trained.files or {})})
    if lineage.parent is not None and lineage.parent.training.weights:
        sources.append(add_weights(draft, lineage.parent))
    for source in sources:
        draft.relate(key, "derived from", source)
    if trained.recipe is not None or trained.files is not None:
        training = draft.activity("training", weights, f"training of {trained.name or weights}", recipe=trained.recipe)
        draft.relate(key, "generated by", training)
        sha256 = trained.recipe_sha256
        sources.append(draft.entity("recipe", sha256 or UNKNOWN, trained.recipe or UNKNOWN, sha256=sha256))
        for source in sources:
            draft.relate(training, "used", source)
    return key


def _add_files(draft: GraphDraft, files: Mapping[str, str]) -> list[str]:
    return [add_file(draft, sha256, name) for sha256, name in files.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLineage:
    """Some weights with the training that has made them, and the weights that this started from."""

    training: Ancestor
    parent: ArmLineage | None = None
    """None for the base, or where nothing is known of the training."""
    earlier_files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 -> name of files of trainings before this one that no parent is known for."""

    @property
    def chain(self) -> Iterator[ArmLineage]:
        """These weights, and those before them."""
        yield self
        if self.parent is not None:
            yield from self.parent.chain


def arm_lineages(arm: Arm) -> tuple[ArmLineage, ...]:
    """Return the lineage of an arm's weights: one, or several of an ensemble or of several trainings; none for a base.

    Runs from before format 11 know the files of an arm alone.
    """
    attributed = {sha256 for ancestor in arm.ancestry for sha256 in ancestor.files or {}}
    unclaimed = {sha256: name for sha256, name in arm.trained_on.items() if sha256 not in attributed}
    parents = {ancestor.parent for ancestor in arm.ancestry if ancestor.parent is not None}
    heads = [each for each in arm.ancestry if parents.isdisjoint({each.weights, each.state})]
    if not heads:
        return (ArmLineage(training=Ancestor(weights=None, files=unclaimed)),) if unclaimed else ()
    return tuple(_trace(head, arm.ancestry, unclaimed) for head in heads)


def _trace(own: Ancestor, ancestry: Sequence[Ancestor], unclaimed: Mapping[str, str]) -> ArmLineage:
    """Return the lineage of some weights. `unclaimed` are files of the arm that belong to no known training."""
    parent = None
    if own.parent is not None:
        others = (each for each in ancestry if each is not own and own.parent in (each.weights, each.state))
        training = next(others, None)
        parent = _trace(training or Ancestor(weights=own.parent), ancestry, {})
    # What an arm declares for weights of unknown origin is all that is known of their training.
    is_own = own.files is None and bool(unclaimed)
    return ArmLineage(
        training=replace(own, files=unclaimed) if is_own else own,
        parent=parent,
        earlier_files={} if is_own else unclaimed,
    )
