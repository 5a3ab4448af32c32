"""Matrix products in one thread, whatever the process is set to: then the number of threads cannot change a result.

A library that splits a product over threads cuts it elsewhere, and its last bits move; a sampled token can then fall on the
other side of a border. At this model's size more threads gain nothing in sampling.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeAlias

Switch: TypeAlias = tuple[Callable[[], int], Callable[[int], None]]

_NAMES = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread within the block. Where numpy's matrix library offers no such switch, nothing happens."""
    found = switch()
    before = found[0]() if found else 1
    if found is None or before == 1:
        yield
        return
    found[1](1)
    try:
        yield
    finally:
        found[1](before)


@cache
def switch() -> Switch | None:
    """How many threads numpy's matrix library uses: a function that says it, and one that sets it."""
    module = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    try:
        library = ctypes.CDLL(module.__file__)  # the libraries that it needs are searched too
    except OSError:
        return None
    for read, write in _NAMES:
        if hasattr(library, read) and hasattr(library, write):
            return getattr(library, read), getattr(library, write)
    return None
