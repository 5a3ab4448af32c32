"""The state of a limiter, in one process or shared by the workers of a run."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from pytest_crucible.backends.limiting.control import Control


class LimiterState(Protocol):
    """Gives exclusive access: `with state as control:`. The block must not wait for anything."""

    poll_s: float
    """How often to look whether other processes have made room."""

    def __enter__(self) -> Control: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def must_yield(self, control: Control) -> bool:
        """Return whether another process waits that has less than its share."""

    def wait(self, control: Control, waits: bool) -> None:
        """Record whether requests of this process wait."""

    def reclaim_dead(self, control: Control, now: float) -> None:
        """Reclaim, from time to time, the permits of processes that have died."""

    def close(self) -> None: ...


class PrivateState:
    """State of a single process."""

    poll_s = 1.0

    def __init__(self, control: Control) -> None:
        self._control = control

    def __enter__(self) -> Control:
        return self._control

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def must_yield(self, control: Control) -> bool:
        return False

    def wait(self, control: Control, waits: bool) -> None:
        pass

    def reclaim_dead(self, control: Control, now: float) -> None:
        pass

    def close(self) -> None:
        pass
