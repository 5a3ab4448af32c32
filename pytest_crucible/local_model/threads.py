"""Matrix products in one thread, so that the number of threads cannot change a result.

A library that splits a product over threads splits it elsewhere, and its last bits move; a sampled token can then fall
on the other side of a border. At this model's size more threads gain nothing in sampling. In training two threads compute
two batches, each of them whole.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeAlias, TypeVar

PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")

Switch: TypeAlias = tuple[Callable[[], int], Callable[[int], None]]

_NAMES = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)


@contextlib.contextmanager
def one_thread() -> Iterator[int]:
    """Compute in one thread within the block; yield how many threads numpy's matrix library had before.

    Does nothing, and yields 1, where the library has no such switch.
    """
    threads = switch()
    before = threads[0]() if threads else 1
    # Already one thread: there is nothing to switch and restore.
    if threads is None or before == 1:
        yield 1
        return
    threads[1](1)
    try:
        yield before
    finally:
        threads[1](before)


def compute_each(compute: Callable[[PartT], ResultT], parts: Sequence[PartT], threads: int) -> Iterator[ResultT]:
    """Yield the result of each part, in order; `threads` parts are computed at a time."""
    if min(threads, len(parts)) == 1:
        yield from map(compute, parts)
        return
    # New ones each time, which takes a tenth of a millisecond: a forked process would not have those of a pool.
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(compute, parts)


@cache
def switch() -> Switch | None:
    """Return the functions that read and set the number of threads of numpy's matrix library, or None."""
    module = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    try:
        # The lookup searches the libraries that the module needs, too.
        library = ctypes.CDLL(module.__file__)
    except OSError:
        return None
    for read, write in _NAMES:
        if hasattr(library, read) and hasattr(library, write):
            return getattr(library, read), getattr(library, write)
    return None
