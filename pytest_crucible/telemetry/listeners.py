"""Send events to several listeners; none of them can break a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pytest_crucible.records import Emit, Event
from pytest_crucible.records.redaction import redact


class Listeners:
    """Sends each event to each listener. A listener that raises is dropped; the others go on."""

    def __init__(self, listeners: Mapping[str, Emit]) -> None:
        """Take listeners by the name that appears in messages about them."""
        self._listeners = tuple(listeners.items())
        self._failures: list[str] = []

    def __call__(self, event: Event) -> None:
        for name, listener in self._listeners:
            try:
                listener(event)
            except KeyboardInterrupt:
                raise
            # pytest.fail and pytest.exit derive from BaseException, and would end the sampling loop.
            except BaseException as error:
                self._listeners = tuple(pair for pair in self._listeners if pair[0] != name)
                failure = f"{name} raised {_describe(error)} on the event {event.name}: it receives no more events"
                self._failures.append(failure)

    def listens_to(self, name: str) -> bool:
        """Return whether a listener wants events of this name; a listener lists those it does not want in `ignores`."""
        return any(name not in getattr(listener, "ignores", ()) for _, listener in self._listeners)

    def close(self) -> None:
        for name, listener in self._listeners:
            close = getattr(listener, "close", None)
            try:
                if close is not None:
                    close()
            except BaseException as error:
                self._failures.append(f"{name} raised {_describe(error)} when it was closed")

    def pop_failures(self) -> list[str]:
        """Return a sentence for each listener that has raised since the last call."""
        failures, self._failures = self._failures, []
        return failures


def redact_event(event: Event, hide: Callable[[str], str]) -> Event:
    """Return an event with its texts redacted: facts may quote a server's error, or the parameters of a request."""
    return replace(event, sample=hide(event.sample), facts=redact(dict(event.facts), hide))


def _describe(error: BaseException) -> str:
    message = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
