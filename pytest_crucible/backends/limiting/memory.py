"""Where a limiter keeps what it knows: in its own process, or where the workers of one run all see it."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from pytest_crucible.backends.limiting.control import Control


class Memory(Protocol):
    """Inside `with memory as control:` nobody else reads or writes it. The block must not wait for anything."""

    looks_s: float
    """How often to look whether others have made room."""

    def __enter__(self) -> Control: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def is_others_turn(self, control: Control) -> bool:
        """Does another process wait that has less than its share?"""

    def wait(self, control: Control, waits: bool) -> None:
        """Say whether requests of this process wait."""

    def reap(self, control: Control, now: float) -> None:
        """Take back, now and then, what processes held that have died."""

    def close(self) -> None: ...


class PrivateMemory:
    """For one process."""

    looks_s = 1.0

    def __init__(self, control: Control) -> None:
        self._control = control

    def __enter__(self) -> Control:
        return self._control

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def is_others_turn(self, control: Control) -> bool:
        return False

    def wait(self, control: Control, waits: bool) -> None:
        pass

    def reap(self, control: Control, now: float) -> None:
        pass

    def close(self) -> None:
        pass
