"""Python's garbage collector while samples are asked: it would take a fifth of the time to find nothing.

What was there before, modules above all, need not be searched again and again; and of what asking makes, all but a broken
connection now and then is released without it. https://docs.python.org/3/library/gc.html#gc.freeze
"""

from __future__ import annotations

import atexit
import contextlib
import gc
from collections.abc import Iterator

ALLOCATED = 10_000
"""New objects before it looks; Python's own 700 are a few samples' worth."""


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


def leave_quickly() -> None:
    """Let this process end without searching, several times, through all modules that it has imported.

    That is a tenth of a short session. What is garbage by then is finalised as ever; the rest ends with the process.
    """
    atexit.unregister(_look_once)
    atexit.register(_look_once)


def _look_once() -> None:
    gc.collect()
    gc.freeze()
