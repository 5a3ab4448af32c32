"""What the collector is told, and that it is told the rest afterwards."""

from __future__ import annotations

import contextlib
import gc
import inspect
from collections.abc import Iterator

import pytest

from pytest_crucible.sample.gc_tuning import ALLOCATED, collecting_seldom


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gc, "get_freeze_count", inspect.unwrap(gc.get_freeze_count))  # the conftest counts only once
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.unfreeze()
    yield
    gc.set_threshold(*before)
    gc.freeze() if frozen else gc.unfreeze()


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
