"""Registered versions that depend on a wrong file, weights or run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from registry_builders import register

from pytest_crucible.features.registry.dependents import suspect_versions
from pytest_crucible.features.registry.records import LogEntry, StoredWeights, Version
from pytest_crucible.features.registry.store import add_version, append_entries, load_registry
from pytest_crucible.records import Adapter
from pytest_crucible.runs.suspects import Suspects
from pytest_crucible.store.runs import RunStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with closing(RunStore(str(tmp_path / "runs.db"))) as opened:
        yield opened


def reasons(store: RunStore, *, hashes: str = "", identities: str = "", runs: str = "") -> list[tuple[str, str, str]]:
    suspects = Suspects(
        hashes=frozenset(hashes.split()), identities=frozenset(identities.split()), runs=frozenset(runs.split())
    )
    return [(each.name, each.state, each.because) for each in suspect_versions(store, suspects)]


def test_a_version_is_suspect_by_its_adapter_its_weights_or_the_proof_of_its_promotion(store: RunStore):
    register(store, "one", "two")
    weights = {"checkpoint": StoredWeights(sha256="a" * 64, file="adapter.safetensors")}
    third = Version(
        model="claims", number=3, identity="three", adapter=Adapter(name="v3", backend="local"), weights=weights
    )
    entry = LogEntry(at="2026-11-01", action="register", model="claims", number=3, state="draft")
    assert add_version(store, load_registry(store), third, entry)
    promotion = replace(entry, action="promote", number=2, state="staged", run="r7", evidence={"exact": 1})
    assert append_entries(store, load_registry(store), [promotion])

    assert reasons(store, identities="one") == [("claims@1", "draft", "its adapter was one")]
    assert reasons(store, hashes="a" * 64) == [("claims@3", "draft", "made from adapter.safetensors")]
    assert reasons(store, runs="r7") == [("claims@2", "staged", "run r7 is the proof of its promotion")]
    assert reasons(store, identities="four", hashes="b" * 64, runs="r8") == []
