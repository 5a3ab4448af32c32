"""Passes of streams over the same batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

Batch = TypeVar("Batch")


class Stream(Protocol):
    """A statistic that reads all batches once or several times."""

    @property
    def is_done(self) -> bool:
        """Return whether no further pass is needed."""

    def end_pass(self) -> None:
        """Conclude a pass over all batches."""


def run_passes(streams: Sequence[Stream], batches: Callable[[], Iterable[Batch]], feed: Callable[[Batch], None]) -> int:
    """Read the batches until all streams are done, and return the number of passes; `feed` adds a batch to the open streams."""
    passes = 0
    while not all(stream.is_done for stream in streams):
        for batch in batches():
            feed(batch)
        for stream in streams:
            if not stream.is_done:
                stream.end_pass()
        passes += 1
    return passes
