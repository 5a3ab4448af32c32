"""How much is spent and reserved so far: in one process, or in a small file that all workers of a run lock and count in."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Protocol

from pytest_crucible.backends.amounts import Amount
from pytest_crucible.errors import SpecError

_COUNTS = struct.Struct("<6d")


class Purse(Protocol):
    """Counts of what is taken, which is spent or reserved, and of what is spent."""

    def take(self, amount: Amount, limit: Amount) -> bool:
        """Reserve, unless more than the limit would be taken then; whether it was reserved."""

    def settle(self, reserved: Amount, spent: Amount) -> None:
        """So much of what was reserved is over, and so much was spent."""

    @property
    def taken(self) -> Amount: ...

    @property
    def spent(self) -> Amount: ...

    def close(self) -> None: ...


class OwnPurse:
    """Of one process."""

    def __init__(self) -> None:
        self.taken = Amount()
        self.spent = Amount()

    def take(self, amount: Amount, limit: Amount) -> bool:
        after = self.taken.plus(amount)
        if not after.within(limit):
            return False
        self.taken = after
        return True

    def settle(self, reserved: Amount, spent: Amount) -> None:
        self.taken = self.taken.plus(reserved, -1.0).plus(spent)
        self.spent = self.spent.plus(spent)

    def close(self) -> None:
        pass


class SharedPurse:
    """Of all processes that name the same file. What a process had reserved when it died stays reserved."""

    def __init__(self, path: Path, *, removes: bool = False) -> None:
        """`removes` says who removes the file. Raises SpecError where there is no place for one, or files cannot be locked."""
        try:
            import fcntl
        except ImportError:
            raise SpecError(
                "a budget needs files that can be locked, which this system has not, to be shared by workers"
            ) from None
        self._path, self._removes = path, removes
        self._lockf, self._lock, self._unlock = fcntl.lockf, fcntl.LOCK_EX, fcntl.LOCK_UN
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def take(self, amount: Amount, limit: Amount) -> bool:
        self._lockf(self._file, self._lock)
        try:
            taken, spent = self._read()
            after = taken.plus(amount)
            if not after.within(limit):
                return False
            self._write(after, spent)
            return True
        finally:
            self._lockf(self._file, self._unlock)

    def settle(self, reserved: Amount, spent: Amount) -> None:
        self._lockf(self._file, self._lock)
        try:
            taken, before = self._read()
            self._write(taken.plus(reserved, -1.0).plus(spent), before.plus(spent))
        finally:
            self._lockf(self._file, self._unlock)

    @property
    def taken(self) -> Amount:
        return self._read()[0]

    @property
    def spent(self) -> Amount:
        return self._read()[1]

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            if self._removes:
                self._path.unlink(missing_ok=True)

    def _read(self) -> tuple[Amount, Amount]:
        counts = _COUNTS.unpack(os.pread(self._file, _COUNTS.size, 0).ljust(_COUNTS.size, b"\0"))
        return Amount(*counts[:3]), Amount(*counts[3:])

    def _write(self, taken: Amount, spent: Amount) -> None:
        os.pwrite(self._file, _COUNTS.pack(*taken, *spent), 0)
