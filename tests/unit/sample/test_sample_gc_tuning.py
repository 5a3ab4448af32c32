"""What the collector is told, and that it is told the rest afterwards."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pytest_crucible.sample.gc_tuning import ALLOCATED, collecting_seldom


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_it_looks_seldom_and_afterwards_as_before():
    gc.set_threshold(700, 10, 10)

    with contextlib.suppress(KeyError), collecting_seldom():
        during = gc.get_threshold(), gc.get_freeze_count() > 0
        raise KeyError

    assert during == ((ALLOCATED, 10, 10), True)
    assert gc.get_threshold() == (700, 10, 10)
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("first", [0, 50_000])
def test_who_wants_it_never_or_seldom_keeps_that(first: int):
    gc.set_threshold(first, 10, 10)

    with collecting_seldom():
        assert gc.get_threshold()[0] == first


def test_what_a_user_has_frozen_stays_so():
    gc.freeze()

    with collecting_seldom():
        pass

    assert gc.get_freeze_count() > 0


def test_garbage_of_samples_is_still_found():
    class Node:
        me: Node

    with collecting_seldom():
        for _ in range(3 * ALLOCATED):
            node = Node()
            node.me = node
        alive = sum(isinstance(one, Node) for one in gc.get_objects())

    assert alive < 2 * ALLOCATED


def test_nothing_is_collected_when_the_interpreter_exits():
    code = """
import atexit, gc
from pytest_crucible.sample.gc_tuning import collect_nothing_at_exit
atexit.register(lambda: print(gc.get_freeze_count() > 1000))
collect_nothing_at_exit()
collect_nothing_at_exit()
atexit.register(lambda: print(gc.get_freeze_count()))
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert output.split() == ["0", "True"]
