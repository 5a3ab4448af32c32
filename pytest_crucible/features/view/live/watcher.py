"""Watches the store for all open pages together, while there are any."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from pytest_crucible.features.view.live.state import State, StateReader

INTERVAL_S = 0.25
"""Seconds between two looks at the store."""
BEAT_S = 5.0
"""Seconds of silence after which a page gets a sign of life: without one it takes the connection for lost."""


class Watcher:
    """Lets pages wait for the states of runs. The store is read once for all of them, and not at all without any."""

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader
        self._pages: Counter[str] = Counter()
        """How many follow each run."""
        self._states: dict[str, tuple[int, State]] = {}
        """The latest state of each run that is followed, numbered."""
        self._number = 0
        self._news, self._wake = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    async def follow(self, run: str) -> AsyncIterator[tuple[int, State] | None]:
        """Yield the state of a run, whole and numbered, and again when it has changed; None as a sign of life."""
        self._pages[run] += 1
        self._start()
        last = 0
        try:
            while not self._is_closed:
                # Before the look at the state, so that no change is missed.
                news = self._news
                number, state = self._states.get(run, (0, {}))
                if number != last:
                    last = number
                    yield number, state
                    continue
                try:
                    await asyncio.wait_for(news.wait(), BEAT_S)
                except TimeoutError:
                    yield None
        finally:
            self._leave(run)

    def close(self) -> None:
        """End what follows: a server that stops waits for its responses."""
        self._is_closed = True
        self._announce()

    def _start(self) -> None:
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._watch())

    def _leave(self, run: str) -> None:
        self._pages[run] -= 1
        if not self._pages[run]:
            del self._pages[run]
            self._states.pop(run, None)

    async def _watch(self) -> None:
        try:
            while self._pages and not self._is_closed:
                self._wake.clear()
                self._publish(await asyncio.to_thread(self._read, tuple(self._pages)))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), INTERVAL_S)
        finally:
            self._task = None

    def _read(self, runs: tuple[str, ...]) -> dict[str, State]:
        try:
            return self._reader.read(runs)
        except Exception as error:  # nothing above this task would see it: pages show it
            return {run: {"problem": f"progress cannot be read: {error!r}"} for run in runs}

    def _publish(self, states: dict[str, State]) -> None:
        changed = {run: state for run, state in states.items() if run in self._pages and self._differs(run, state)}
        for run, state in changed.items():
            self._number += 1
            self._states[run] = (self._number, state)
        if changed:
            self._announce()

    def _differs(self, run: str, state: State) -> bool:
        return run not in self._states or self._states[run][1] != state

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
