"""Results are computed in a process of their own, once, and again where the store has changed or an error was raised."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_crucible.features.view.compute.computed_once import ComputedOnce
from pytest_crucible.features.view.compute.own_process import compute_apart
from pytest_crucible.features.view.compute.process_main import call_function
from pytest_crucible.features.view.site import Site
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.store.reading import READINGS, ChangedStoreError
from pytest_crucible.store.runs import RunStore

readings: list[int] = []


def read_changing(site: Site, changes: int) -> str:
    readings.append(1)
    if len(readings) <= changes:
        raise ChangedStoreError("the store was changed while it was read")
    return "as it is now"


def refuse(site: Site) -> None:
    raise SpecError("no such thing: name another")


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "runs.db"
    RunStore(str(path)).close()
    readings.clear()
    return str(path)


def test_a_store_that_changes_meanwhile_is_read_again(store):
    assert call_function(f"{__name__}:read_changing", store, [READINGS - 1]) == ("", "as it is now")


def test_a_store_that_always_changes_is_a_sentence(store):
    error, value = call_function(f"{__name__}:read_changing", store, [READINGS])

    assert error == "the store was changed while it was read"
    assert value is None


def test_an_expected_error_is_its_sentence(store):
    assert call_function(f"{__name__}:refuse", store, []) == ("no such thing: name another", None)


def test_a_process_that_fails_gives_its_reason(store):
    with pytest.raises(CrucibleError, match=r"cannot be computed: .*no_such_module"):
        compute_apart("no_such_module:compute", store)


def test_what_failed_is_computed_again_and_what_succeeded_is_not():
    outcomes = [ValueError("once"), "html"]

    def compute() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with ThreadPoolExecutor(1) as worker:
        computed = ComputedOnce(worker, most=2)
        assert isinstance(computed.start("run", compute).exception(), ValueError)
        assert computed.start("run", compute).result() == "html"
        assert computed.start("run", compute).result() == "html"


def test_the_last_values_stay():
    calls = []

    def compute(name: str) -> str:
        calls.append(name)
        return name

    with ThreadPoolExecutor(1) as worker:
        computed = ComputedOnce(worker, most=2)
        for name in ("a", "b", "a", "c", "a", "b"):
            computed.start(name, lambda name=name: compute(name)).result()

    assert calls == ["a", "b", "c", "b"]
