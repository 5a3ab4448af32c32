"""Batches that another thread reads while the last one is analysed."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from pytest_crucible.analyse.streamed import read_ahead


def count_to(stop: int, threads: set[int]) -> Generator[int, None, None]:
    try:
        for number in range(stop):
            threads.add(threading.get_ident())
            yield number
    finally:
        threads.add(threading.get_ident())


@pytest.mark.parametrize("stop", [0, 1, 5])
def test_all_items_come_in_their_order_from_one_other_thread(stop):
    threads: set[int] = set()

    assert list(read_ahead(count_to(stop, threads))) == list(range(stop))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_a_reader_that_is_left_early_is_closed_in_its_thread():
    threads: set[int] = set()
    items = read_ahead(count_to(1_000_000, threads))
    next(items)
    items.close()

    assert len(threads) == 1


def test_an_error_of_the_reader_is_raised():
    def fail() -> Generator[int, None, None]:
        yield 1
        raise OSError("the disk is full")

    items = read_ahead(fail())
    assert next(items) == 1
    with pytest.raises(OSError, match="disk is full"):
        next(items)
