"""Packs the rows of a large file in two processes: this one reads the first half, and another one the second."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO

from pytest_crucible.importers.large_files import LineRows, parse_lines
from pytest_crucible.importers.packed_rows import Packing
from pytest_crucible.importers.results import Record

SHARED_BYTES = 100_000_000
"""Below, the start of a process takes a third of the time that it saves."""
_PART = 10_000  # rows, of which the other process has columns in memory: about a MB
Pack = Callable[[Iterable[Record]], Packing]


def pack_lines(rows: LineRows, pack: Pack) -> Packing:
    """Return the packed rows of a file. `pack` can be pickled. Raises SpecError."""
    is_shared = rows.path.stat().st_size >= SHARED_BYTES and _processors() > 1
    middle = rows.middle() if is_shared else 0
    if middle:
        with _other_process(rows.path, middle, pack) as other_half:
            packing = pack(record for _, record in parse_lines(rows.path, 0, middle))
            if other_half(packing):
                return packing
    # A process that failed was ended, or has found an error, whose line has no number there: all is read here.
    return pack(record for _, record in rows)


@contextlib.contextmanager
def _other_process(path: Path, begin: int, pack: Pack) -> Iterator[Callable[[Packing], bool]]:
    """Let another process pack a file from a byte on, and yield a function that adds its rows; False if it has failed."""
    # Without the working directory, whose files may have the names of modules.
    command = [sys.executable, "-P", "-m", __name__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with tempfile.TemporaryFile() as work, tempfile.TemporaryFile() as output:
        pickle.dump((path.absolute(), begin, pack), work)
        work.seek(0)
        try:
            process = subprocess.Popen(command, stdin=work, stdout=output, stderr=subprocess.DEVNULL, env=environment)
        except OSError:
            yield lambda packing: False
            return

        def add_rows(packing: Packing) -> bool:
            is_whole = process.wait() == 0 and output.seek(0, os.SEEK_END) > 0
            output.seek(0)
            for part in _load_parts(output) if is_whole else ():
                packing.merge(part)
            return is_whole

        try:
            yield add_rows
        finally:
            process.kill()
            process.wait()


def _load_parts(file: IO[bytes]) -> Iterator[Packing]:
    with contextlib.suppress(EOFError):
        while True:
            yield pickle.load(file)


def _dump_parts() -> None:
    """Write the packed rows of a part of a file, which standard input names, to standard output."""
    path, begin, pack = pickle.load(sys.stdin.buffer)
    records = (record for _, record in parse_lines(path, begin))
    while (part := pack(islice(records, _PART))).questions:
        pickle.dump(part, sys.stdout.buffer)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    _dump_parts()
