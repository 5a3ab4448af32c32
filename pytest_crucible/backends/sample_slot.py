"""The slot of a sample: while its request waits to be sent again, another sample may start in its place."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Protocol


class Slots(Protocol):
    """Slots for as many samples as may run at a time."""

    def release(self) -> None:
        """Give a slot back."""

    async def acquire(self) -> None:
        """Wait for a slot."""


class SampleSlot:
    """The slot of one sample, held from its start to its end except while it waits."""

    __slots__ = ("_has_ended", "_is_held", "_slots", "_waits")

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._waits = 0
        self._is_held = True
        self._has_ended = False

    def end(self) -> bool:
        """Record the end of the sample; return whether it held its slot then, which the caller now has."""
        self._has_ended = True
        return self._is_held

    @contextlib.asynccontextmanager
    async def released(self) -> AsyncIterator[None]:
        """Release the slot inside the block. Waits nest: a sample may wait for several requests at once."""
        self._waits += 1
        if self._is_held and not self._has_ended:
            self._is_held = False
            self._slots.release()
        try:
            yield
        finally:
            self._waits -= 1
        # Not after a cancellation: then this request is not sent again.
        await self._acquire()

    async def _acquire(self) -> None:
        if self._waits or self._is_held or self._has_ended:
            return
        await self._slots.acquire()
        # Another request of the sample may have acquired its slot meanwhile, or the sample may have ended without this one.
        if self._is_held or self._has_ended:
            self._slots.release()
        else:
            self._is_held = True


_SLOT: ContextVar[SampleSlot | None] = ContextVar("crucible_sample_slot", default=None)


def set_slot(slot: SampleSlot) -> None:
    """Set the slot that waiting releases, for this task and the tasks it starts."""
    _SLOT.set(slot)


@contextlib.asynccontextmanager
async def released_slot() -> AsyncIterator[None]:
    """Release the sample's slot inside the block."""
    slot = _SLOT.get()
    if slot is None:
        yield
        return
    async with slot.released():
        yield
