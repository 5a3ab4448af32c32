"""Scores of a run larger than memory, in files for temporary data: read in batches, once for each pass of a statistic.

Reading the rows of a database takes a hundred times as long. The files have no names, so that they end with the process.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import tempfile
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse.analysis import ScoreTable
from pytest_crucible.analyse.statistics import SampleAttributes


class SpilledScores:
    """Score tables of consecutive samples. Each metric has a file, so that a pass reads the metrics that it needs."""

    def __init__(self) -> None:
        self._scores: dict[str, IO[bytes]] = {}
        self._open = contextlib.ExitStack()
        self._attributes = self._open_file()
        self._tables = 0
        self._empty: ScoreTable | None = None

    def append(self, table: ScoreTable) -> None:
        """Add the scores of the samples that follow."""
        self._empty = self._empty or replace(table, scores={}, attributes=SampleAttributes())
        self._tables += 1
        for name, scores in table.scores.items():
            if name not in self._scores:
                self._scores[name] = self._open_file()
            _Pickler(self._scores[name], pickle.HIGHEST_PROTOCOL).dump(scores)
        _Pickler(self._attributes, pickle.HIGHEST_PROTOCOL).dump(table.attributes)

    def read(self, names: Iterable[str]) -> Generator[ScoreTable, None, None]:
        """Yield the tables with the scores of some metrics, in their order."""
        files = {name: self._scores[name] for name in dict.fromkeys(names)}
        for file in (self._attributes, *files.values()):
            file.seek(0)
        for _ in range(self._tables):
            assert self._empty is not None
            scores = {name: pickle.load(file) for name, file in files.items()}
            yield replace(self._empty, scores=scores, attributes=pickle.load(self._attributes))

    def close(self) -> None:
        """Remove the files."""
        self._open.close()

    def _open_file(self) -> IO[bytes]:
        return self._open.enter_context(tempfile.TemporaryFile())


class _Pickler(pickle.Pickler):
    """Writes flags as bits, and small whole numbers as bytes: yes and no take an eighth of the space."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or not value.size:
            return NotImplemented
        if value.dtype == np.bool_:
            return _read_flags, (np.packbits(value).tobytes(), value.shape)
        if value.dtype == np.float64 and _is_small(value):
            return _read_bytes, (value.astype(np.uint8).tobytes(), value.shape)
        return NotImplemented


def _is_small(values: npt.NDArray[np.float64]) -> bool:
    # A sample tells most arrays apart. The sign of -0.0 would be lost.
    first = values.ravel()[:100]
    return all(
        bool(((part >= 0) & (part <= 255) & (part == np.floor(part)) & ~np.signbit(part)).all())
        for part in (first, values)
    )


def _read_flags(packed: bytes, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=math.prod(shape))
    return bits.view(np.bool_).reshape(shape)


def _read_bytes(packed: bytes, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    return np.frombuffer(packed, dtype=np.uint8).astype(np.float64).reshape(shape)
