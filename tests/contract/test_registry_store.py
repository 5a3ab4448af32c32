"""The registry's tables on an SQLite file and a PostgreSQL server: one transition wins, and what was changed is found."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_crucible.features.registry.records import LogEntry, Version
from pytest_crucible.features.registry.rules import Note, change_state, promotion
from pytest_crucible.features.registry.store import (
    add_version,
    append_entries,
    changed_versions,
    find_number,
    load_registry,
    load_version,
    version_key,
)
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError, StoreError
from pytest_crucible.store.runs import RunStore

VERSION = Version(
    model="claims",
    number=1,
    identity="abc",
    adapter=Adapter(name="v1", backend="recorded", options={"path": "v1.jsonl"}, parameters={"temperature": 0.5}),
)
DRAFT = LogEntry(at="2026-01-01T00:00:00+00:00", action="register", model="claims", number=1, state="draft")
NOTE = Note(at="2026-01-02T00:00:00+00:00", by="me", run="run1")


@pytest.fixture
def store(location: str) -> Iterator[RunStore]:
    opened = RunStore(location)
    assert add_version(opened, load_registry(opened), VERSION, DRAFT)
    yield opened
    opened.close()


def promote(store: RunStore, number: int = 1) -> tuple[LogEntry, ...]:
    def decide(registry):
        return promotion(registry.state, registry.state.statuses["claims", number], "production", NOTE)

    return change_state(store, decide)


@pytest.mark.slow
def test_a_version_comes_back_as_it_was_registered(store):
    key = version_key(VERSION.identity, VERSION.adapter.parameters)

    assert load_version(store, "claims", 1) == VERSION
    assert find_number(store, "claims", key) == 1
    assert (find_number(store, "others", key), load_version(store, "claims", 2)) == (None, None)
    assert changed_versions(store, load_registry(store)) == []


def test_a_transition_against_a_state_that_is_gone_writes_nothing(store):
    stale = load_registry(store)
    promote(store)

    assert not append_entries(store, stale, [DRAFT])
    assert not add_version(store, stale, replace(VERSION, number=2, identity="other"), replace(DRAFT, number=2))
    assert [entry.state for entry in load_registry(store).entries] == ["draft", "production"]
    assert load_version(store, "claims", 2) is None


def test_of_many_promotions_at_once_one_wins(location, store):
    refused, barrier = list[str](), threading.Barrier(8)

    def run() -> None:
        own = RunStore(location)
        barrier.wait()
        try:
            promote(own)
        except SpecError as error:
            refused.append(str(error))
        finally:
            own.close()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [entry.state for entry in load_registry(store).entries] == ["draft", "production"]
    assert refused == ["claims@1 is in production already: `crucible models list claims` shows why"] * 7


EDITS = {
    "a changed row": ("UPDATE registry_log SET body = replace(body, 'production', 'candidate') WHERE number = 2", 2),
    "a changed digest": ("UPDATE registry_log SET digest = substr(digest, 2, 63) WHERE number = 1", 1),
    "a row taken out": ("DELETE FROM registry_log WHERE number = 1", 1),
    "the last row taken out": ("DELETE FROM registry_log WHERE number = 2", 2),
    "a row added": ("INSERT INTO registry_log SELECT 3, body, digest FROM registry_log WHERE number = 2", 3),
    "another head": ("UPDATE registry_head SET number = 1", 2),
    "no head": ("DELETE FROM registry_head", 1),
    "no log": ("DELETE FROM registry_log", 1),
}


@pytest.mark.parametrize(("edit", "row"), EDITS.values(), ids=EDITS)
def test_an_edited_log_is_refused_with_the_number_of_the_row(store, edit, row):
    promote(store)
    store.execute(edit)

    with pytest.raises(StoreError, match=f"^row {row} of the registry log does not match its hash: restore the store"):
        load_registry(store)
    with pytest.raises(StoreError, match=f"^row {row} "):
        promote(store)


def test_an_edited_version_is_found(store):
    store.execute("UPDATE model_versions SET body = replace(body, 'v1.jsonl', 'v2.jsonl')")

    assert changed_versions(store, load_registry(store)) == ["claims@1"]
