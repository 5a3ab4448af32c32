"""Finds the registered versions that depend on wrong data, a checkpoint or a commit."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_crucible.features.registry.records import LogEntry, Version
from pytest_crucible.features.registry.store import load_registry, load_versions
from pytest_crucible.records import Lineage
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.runs.suspects import Dependent, Suspects
from pytest_crucible.store.runs import RunStore


def suspect_versions(store: RunStore, suspects: Suspects) -> Iterator[Dependent]:
    """Yield each version with a suspect adapter, suspect weights or training files, or a suspect run as its proof."""
    # Shown although the log is broken: `crucible doctor` says which row.
    state = load_registry(store, check=False).state
    for version in load_versions(store):
        place = version.model, version.number
        reason = next(_reasons(version, state.proofs.get(place), suspects), None)
        if reason is not None and place in state.statuses:
            because, depends_on = reason
            yield Dependent(
                kind="registered version",
                name=version.name,
                state=state.statuses[place].state,
                because=because,
                depends_on=depends_on,
            )


def _reasons(version: Version, proof: LogEntry | None, suspects: Suspects) -> Iterator[tuple[str, str]]:
    """Yield why a version is suspect, and the suspect."""
    if version.identity in suspects.identities:
        yield f"its adapter was {version.adapter.name}", version.identity
    names = {weights.sha256: weights.file for weights in version.weights.values()}
    if version.lineage is not None:
        names |= from_plain(Lineage, version.lineage).training_files
    yield from ((f"made from {name}", sha256) for sha256, name in names.items() if sha256 in suspects.hashes)
    if proof is not None and proof.run in suspects.runs:
        yield f"run {proof.run} is the proof of its promotion", str(proof.run)
