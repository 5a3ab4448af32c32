"""Events on their way into the run store."""

from __future__ import annotations

from functools import partial

from pytest_crucible.records import Emit, Event
from pytest_crucible.store.event_rows import NOT_STORED
from pytest_crucible.store.writer import Writer


class Recorder:
    """Keeps the events of one run. What happens before the run is entered into the store, such as training, waits for that.

    What happens after the end is not kept: then nobody writes any more.
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
        """The run is in the store: write what has happened, and all that will."""
        self._keep = partial(writer.tell, self._run)
        for event in self._early:
            self._keep(event)
        self._early.clear()

    def close(self) -> None:
        """Before the writer is closed. Idempotent."""
        self._keep = _forgotten


def _forgotten(event: Event) -> None:
    """It came too late."""
