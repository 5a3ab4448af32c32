"""Passes the events of a run to the store's writer."""

from __future__ import annotations

from functools import partial

from pytest_crucible.records import Emit, Event
from pytest_crucible.store.event_rows import NOT_STORED
from pytest_crucible.store.writer import Writer


class Recorder:
    """Records the events of one run. Events before the run is in the store, such as those of training, wait for that.

    Events after the end are discarded: the writer is closed then.
    """

    ignores = NOT_STORED

    def __init__(self, run: str) -> None:
        self._run = run
        self._early: list[Event] = []
        self._keep: Emit = self._early.append

    def __call__(self, event: Event) -> None:
        if event.name not in self.ignores:
            self._keep(event)

    def open(self, writer: Writer) -> None:
        """Write the waiting events, and from now on each event: the run is in the store."""
        self._keep = partial(writer.tell, self._run)
        for event in self._early:
            self._keep(event)
        self._early.clear()

    def close(self) -> None:
        """Stop writing. Call this before the writer is closed. Idempotent."""
        self._keep = _discard


def _discard(event: Event) -> None:
    """Ignore an event that came after the end."""
