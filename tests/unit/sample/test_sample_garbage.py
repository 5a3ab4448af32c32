"""The garbage collector runs seldom while samples are run, and as before afterwards."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator

import pytest

from pytest_crucible.sample.garbage import (
    ALLOCATED,
    IMPORTED,
    collecting_seldom,
    is_pytests_process,
    set_objects_aside,
    setting_imports_aside,
)


@pytest.fixture(autouse=True)
def pythons_own_thresholds() -> Iterator[None]:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    gc.freeze() if frozen else gc.unfreeze()


def test_collection_is_rare_inside_and_restored_afterwards():
    with contextlib.suppress(KeyError), collecting_seldom():
        during = gc.get_threshold(), gc.get_freeze_count() > 0
        raise KeyError

    assert during == ((ALLOCATED, 10, 10), True)
    assert gc.get_threshold() == (700, 10, 10)
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("first", [0, 50_000])
def test_a_disabled_or_larger_threshold_is_kept(first: int):
    gc.set_threshold(first, 10, 10)

    with collecting_seldom():
        assert gc.get_threshold()[0] == first


def test_objects_frozen_by_the_user_stay_frozen():
    gc.freeze()

    with collecting_seldom():
        pass

    assert gc.get_freeze_count() > 0


def test_cyclic_garbage_of_samples_is_still_collected():
    class Node:
        me: Node

    with collecting_seldom():
        for _ in range(3 * ALLOCATED):
            node = Node()
            node.me = node
        alive = sum(isinstance(thing, Node) for thing in gc.get_objects())

    assert alive < 2 * ALLOCATED


class Node:
    """An object that keeps itself."""

    def __init__(self) -> None:
        self.me = self


def test_garbage_is_freed_before_objects_are_set_aside_and_other_garbage_after_it():
    before = weakref.ref(Node())
    set_objects_aside()
    after = weakref.ref(Node())
    is_freed = before() is None, after() is None
    gc.collect()

    assert is_freed == (True, False)
    assert after() is None
    assert gc.get_freeze_count() > 10_000


def test_objects_that_the_process_has_set_aside_itself_stay():
    gc.freeze()

    frozen = gc.get_freeze_count()
    session = Node()

    set_objects_aside()

    assert gc.get_freeze_count() <= frozen
    assert session in gc.get_objects()


def test_nothing_is_set_aside_where_collection_is_disabled():
    gc.set_threshold(0, 10, 10)

    set_objects_aside()

    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(
    ("program", "is_pytests"),
    [
        ("/usr/bin/pytest", True),
        ("C:/Scripts/pytest.exe", True),
        ("/lib/site-packages/pytest/__main__.py", True),
        ("-c", False),
        ("/home/me/run_pytest.py", False),
        ("/lib/site-packages/notebook/__main__.py", False),
    ],
)
def test_only_a_process_of_pytest_ends_with_the_session(monkeypatch, program, is_pytests):
    monkeypatch.setattr("sys.argv", [program, "-q"])

    assert is_pytests_process() == is_pytests


def test_objects_of_imports_are_set_aside_with_older_ones_in_a_process_of_pytest(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/pytest"])
    older = Node()

    with setting_imports_aside() as are_aside:
        imported = Node()
        during = gc.get_threshold()[0]
    newer = Node()
    collectable = gc.get_objects()

    assert (are_aside, during, gc.get_threshold()[0]) == (True, IMPORTED, 700)
    assert newer in collectable
    assert older not in collectable
    assert imported not in collectable


@pytest.mark.parametrize("again", [False, True])
def test_objects_are_set_aside_a_second_time_only_if_that_is_said(monkeypatch, again: bool):
    monkeypatch.setattr("sys.argv", ["/usr/bin/pytest"])
    set_objects_aside()

    with setting_imports_aside(again=again) as are_aside:
        imported = Node()

    assert are_aside == again
    assert (imported in gc.get_objects()) != again


def test_another_process_keeps_the_objects_of_imports_in_its_garbage_collection(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/home/me/run_pytest.py"])

    with setting_imports_aside() as are_aside:
        imported = Node()

    assert not are_aside
    assert imported in gc.get_objects()
    assert gc.get_freeze_count() == 0
