"""Rare garbage collections in a session, which makes many objects and little garbage.

It imports nothing heavy: it is there before the modules whose imports it makes faster.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

# New objects before it looks; Python's own 700 are a few samples' worth.
ALLOCATED = 10_000
# The same for imports, whose objects stay: the analysis with numpy makes 25,000.
IMPORTED = 100_000


@contextlib.contextmanager
def collecting_seldom(allocated: int = ALLOCATED) -> Iterator[None]:
    """Let the collector run seldom, and only on new objects, unless the process has such settings of its own."""
    first, *others = gc.get_threshold()
    if not 0 < first < allocated:
        yield
        return
    freezes = gc.get_freeze_count() == 0
    if freezes:
        gc.freeze()
    gc.set_threshold(allocated, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)
        if freezes:
            gc.unfreeze()


def set_objects_aside(*, again: bool = False) -> bool:
    """Take all objects that exist out of garbage collection, after one for those that are garbage already.

    Nearly all belong to modules, and stay until the process ends; pytest and the interpreter then look for garbage among them
    three times, which takes 0.1 s of a short session. For a process that ends with the session. Returns False, and does nothing,
    where the process has such settings of its own. `again`: older objects were set aside by an earlier call.
    """
    is_usual = gc.isenabled() and gc.get_threshold()[0] > 0 and (again or gc.get_freeze_count() == 0)
    if is_usual:
        gc.collect()
        gc.freeze()
    return is_usual


@contextlib.contextmanager
def setting_imports_aside(*, again: bool = False) -> Iterator[bool]:
    """Set objects aside, and then those of the modules that are imported within, which are no garbage.

    Collecting garbage among the former alone takes half the time. Yields whether it is done: only in a process of pytest.
    """
    is_done = is_pytests_process() and set_objects_aside(again=again)
    with collecting_seldom(IMPORTED):
        yield is_done
        if is_done:
            # Before the usual threshold is back, and all of them are looked at.
            gc.freeze()


def is_pytests_process() -> bool:
    """Return whether pytest is the program of this process, and not called by another one, which goes on afterwards."""
    program = Path(sys.argv[0])
    return program.name in ("pytest", "pytest.exe", "py.test") or program.parts[-2:] == ("pytest", "__main__.py")
