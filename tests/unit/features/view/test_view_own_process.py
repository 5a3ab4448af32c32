"""Results are computed in a process of their own, once, and again where the store has changed or an error was raised."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_crucible.features.view.own_process import compute_apart
from pytest_crucible.features.view.own_process_main import call_function
from pytest_crucible.features.view.site import ComputedOnce, Site
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


@pytest.fixture
def importable(monkeypatch):
    """Let other processes import this module, which lies in no package of theirs."""
    paths = str(Path(__file__).parent), os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


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


def print_and_count(site: Site) -> int:
    print("a plugin says something")
    return 3


def test_what_is_printed_meanwhile_is_no_part_of_the_result(store, importable):
    assert compute_apart(f"{__name__}:print_and_count", store) == 3


def wait_forever(site: Site, path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(300)


def test_the_process_ends_with_the_one_that_waits_for_it(store, tmp_path, importable):
    """However that ends: a dashboard that was killed leaves no process behind."""
    note = tmp_path / "pid"
    call = f"from {compute_apart.__module__} import *; compute_apart({__name__ + ':wait_forever'!r}, {store!r}, {str(note)!r})"
    with subprocess.Popen([sys.executable, "-c", call]) as waiting:
        while not (note.exists() and note.read_text()):
            assert waiting.poll() is None
            time.sleep(0.05)
        waiting.kill()
    number = int(note.read_text())

    for _ in range(200):
        if not is_running(number):
            return
        time.sleep(0.05)
    os.kill(number, signal.SIGKILL)
    pytest.fail("the process goes on")


def is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    # A zombie has ended, too.
    status = Path(f"/proc/{number}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")
