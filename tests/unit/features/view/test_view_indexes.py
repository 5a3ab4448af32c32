"""Indexes are loaded once, in the background, again where an unfinished run has written, and in a bounded memory."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future

import pytest

from pytest_crucible.features.view.samples import indexes
from pytest_crucible.features.view.samples.indexes import SampleIndexes, StoredSamples
from pytest_crucible.features.view.samples.select import ListState
from pytest_crucible.records.errors import StoreError
from pytest_crucible.store.runs import RunStore
from tests.stored_samples import numbered_samples, score, store_samples


@pytest.fixture
def store(path):
    with contextlib.closing(RunStore(str(path))) as opened:
        yield opened


def samples_of(store, run="run") -> StoredSamples:
    key, plan, _ = store.all_experiments(run)[0]
    return StoredSamples(store, run, key, plan)


def test_an_index_of_a_finished_run_is_loaded_once(store, path):
    store_samples(path, numbered_samples(3), {"v2": [score(m=1.0)] * 3})
    samples = SampleIndexes()

    first = samples.get(samples_of(store))

    assert samples.request(samples_of(store)) is first
    assert first.positions(ListState(metric="m")) is first.positions(ListState(metric="m"))


def test_a_list_that_is_not_loaded_is_a_future(store, path):
    store_samples(path, numbered_samples(3), {"v2": [score(m=1.0)] * 3})
    samples = SampleIndexes()

    future = samples.request(samples_of(store))

    assert isinstance(future, Future)
    assert future.result() is samples.get(samples_of(store))


def test_what_an_unfinished_run_has_written_is_loaded_in_the_background(store, path, monkeypatch):
    arms = {"v2": [score(m=1.0), None]}
    store_samples(path, numbered_samples(2), arms, status="running")
    samples = SampleIndexes()
    before = samples.get(samples_of(store))
    store_samples(path, numbered_samples(2), {"v2": [score(m=1.0)] * 2}, status="finished")
    assert samples.get(samples_of(store)) is before

    monkeypatch.setattr(before, "age_limit_s", 0.0)
    assert samples.get(samples_of(store)) is before
    samples._executor.submit(int).result()
    after = samples.get(samples_of(store))

    assert after.index.is_final
    assert after.index.metrics["m"][0].values.tolist() == [1.0, 1.0]


def test_the_indexes_that_were_used_longest_ago_make_room(store, path, monkeypatch):
    for run in ("one", "two", "three"):
        store_samples(path, numbered_samples(3), {"v2": [score(m=1.0)] * 3}, run=run)
    samples = SampleIndexes()
    oldest = samples.get(samples_of(store, "one"))
    monkeypatch.setattr(indexes, "ROOM", 2 * oldest.bytes)
    samples.get(samples_of(store, "two"))
    assert samples.get(samples_of(store, "one")) is oldest

    samples.get(samples_of(store, "three"))

    assert samples.get(samples_of(store, "one")) is oldest
    assert list(samples._loaded) == [samples_of(store, run).key for run in ("three", "one")]


def test_an_error_is_raised_and_the_next_request_tries_again(store, path, monkeypatch):
    store_samples(path, numbered_samples(1), {"v2": [score(m=1.0)]})
    samples, load_index = SampleIndexes(), indexes.load_index

    def fail(*_):
        raise StoreError("the store is away")

    monkeypatch.setattr(indexes, "load_index", fail)
    with pytest.raises(StoreError, match="away"):
        samples.get(samples_of(store))
    monkeypatch.setattr(indexes, "load_index", load_index)

    assert samples.get(samples_of(store)).index.size == 1
