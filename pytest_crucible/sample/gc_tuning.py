"""Runs Python's garbage collector less often while samples are run: it would take a fifth of the time and find nothing.

Objects from before, modules above all, need not be searched again and again; of those that a sample makes, all but a broken
connection now and then are released without it. https://docs.python.org/3/library/gc.html#gc.freeze
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

# New objects before it looks; Python's own 700 are a few samples' worth.
ALLOCATED = 10_000


@contextlib.contextmanager
def collecting_seldom() -> Iterator[None]:
    """Let the collector run seldom, and only on new objects; restore its state afterwards.

    A process that has frozen objects, or collects more seldom or never, keeps its settings.
    """
    first, *others = gc.get_threshold()
    if not 0 < first < ALLOCATED:
        yield
        return
    freezes = gc.get_freeze_count() == 0
    if freezes:
        gc.freeze()
    gc.set_threshold(ALLOCATED, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)
        if freezes:
            gc.unfreeze()
