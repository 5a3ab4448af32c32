"""Several listeners as one, none of which can break a run."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_crucible.records import Emit, Event


class Listeners:
    """Tells each listener of each event. One that raises is told nothing more; the others are."""

    def __init__(self, listeners: Mapping[str, Emit]) -> None:
        """By the name that a complaint would call them."""
        self._listeners = tuple(listeners.items())
        self._complaints: list[str] = []

    def __call__(self, event: Event) -> None:
        for name, listener in self._listeners:
            try:
                listener(event)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # pytest's own outcomes are no Exceptions, and this may be the sampling loop
                self._drop(name, event, error)

    def hears(self, name: str) -> bool:
        """Does anybody want to know of such events? A listener that does not names them in `ignores`."""
        return any(name not in getattr(listener, "ignores", ()) for _, listener in self._listeners)

    def close(self) -> None:
        """Nothing more will be told: close those that can be."""
        for name, listener in self._listeners:
            close = getattr(listener, "close", None)
            try:
                if close is not None:
                    close()
            except BaseException as error:
                self._complaints.append(f"{name} raised {_said(error)} when it was closed")

    def complaints(self) -> list[str]:
        """A sentence for each listener that has raised since this was last asked."""
        told, self._complaints = self._complaints, []
        return told

    def _drop(self, name: str, event: Event, error: BaseException) -> None:
        self._listeners = tuple(one for one in self._listeners if one[0] != name)
        said = f"{name} raised {_said(error)} when it was told of {event.name}: it is told nothing more"
        self._complaints.append(said)


def _said(error: BaseException) -> str:
    said = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
