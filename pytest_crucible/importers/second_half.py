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
    middle = rows.middle() if rows.path.stat().st_size >= SHARED_BYTES and _processors() > 1 else 0
    if middle:
        with tempfile.TemporaryFile() as output, _other_process(rows.path, middle, pack, output) as other:
            packing = pack(record for _, record in parse_lines(rows.path, 0, middle))
            if other.wait() == 0:
                output.seek(0)
                for part in _load_parts(output):
                    packing.merge(part)
                return packing
    # A process that failed has found an error, whose line has no number there, or was ended: then all is read here.
    return pack(record for _, record in rows)


@contextlib.contextmanager
def _other_process(path: Path, begin: int, pack: Pack, output: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", __name__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        try:
            # A process that does not start reads nothing.
            with contextlib.suppress(OSError), process.stdin or contextlib.nullcontext() as stdin:
                pickle.dump((path.absolute(), begin, pack), stdin)
            yield process
        finally:
            process.kill()


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
