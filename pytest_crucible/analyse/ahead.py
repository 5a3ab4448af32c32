"""Reads the next batch while the last one is analysed."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """Yield the items of a generator, which one other thread runs from its start to its end."""
    with ThreadPoolExecutor(1) as reader:
        try:
            following = reader.submit(next, items, None)
            while (item := following.result()) is not None:
                following = reader.submit(next, items, None)
                yield item
        finally:
            # A connection to SQLite is closed by the thread that opened it.
            reader.submit(items.close).result()
