"""Python's garbage collector while samples are asked: it would take a fifth of the time to find nothing.

What was there before, modules above all, need not be searched again and again; and of what asking makes, all but a broken
connection now and then is released without it. https://docs.python.org/3/library/gc.html#gc.freeze
"""

from __future__ import annotations

import atexit
import contextlib
import gc
from collections.abc import Iterator

# New objects before it looks; Python's own 700 are a few samples' worth.
ALLOCATED = 10_000


@contextlib.contextmanager
def collecting_seldom() -> Iterator[None]:
    """Let the collector look seldom, and only at what is new; afterwards all is as it was.

    Someone who has frozen objects, or looks seldom already or never, keeps that.
    """
    first, *others = gc.get_threshold()
    freezes = gc.get_freeze_count() == 0
    if freezes:
        gc.freeze()
    if 0 < first < ALLOCATED:
        gc.set_threshold(ALLOCATED, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)
        if freezes:
            gc.unfreeze()


def collect_nothing_at_exit() -> None:
    """Let the interpreter exit at once: it would search all modules for garbage, several times, and free none of their memory.

    Idempotent. Nothing changes before the exit.
    """
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
