"""Ledgers of spent and reserved amounts: in one process, or in a file that all workers of a run lock and update."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Protocol

from pytest_crucible.backends.budget.amounts import Amount
from pytest_crucible.records.errors import SpecError

# Taken and spent: dollars, tokens and requests of each.
_COUNTS = struct.Struct("<6d")


class SpendLedger(Protocol):
    """Amounts taken (spent or reserved) and amounts spent."""

    def take(self, amount: Amount, limit: Amount) -> bool:
        """Reserve an amount and return True; return False if the limit would be exceeded."""

    def settle(self, reserved: Amount, spent: Amount) -> None:
        """Replace a reserved amount by the amount that was spent."""

    @property
    def taken(self) -> Amount: ...

    @property
    def spent(self) -> Amount: ...

    def close(self) -> None: ...


class ProcessLedger:
    """A ledger in the memory of one process."""

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


class SharedLedger:
    """A ledger shared by all processes that open the same file.

    A process that dies leaves its reservations in place: its requests may have been billed.
    """

    def __init__(self, path: Path, *, removes_file: bool = False) -> None:
        """Open the file; the ledger with `removes_file` deletes it at the end.

        Raises SpecError if files cannot be locked on this system.
        """
        try:
            import fcntl
        except ImportError:
            raise SpecError(
                "sharing a budget between workers needs file locking, which this system lacks: run without pytest-xdist (-n 0)"
            ) from None
        self._path, self._removes = path, removes_file
        self._lockf, self._lock, self._unlock = fcntl.lockf, fcntl.LOCK_EX, fcntl.LOCK_UN
        # O_NOFOLLOW: another user of the machine cannot redirect the file. Mode 0600: only this user reads it.
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
            taken, spent_before = self._read()
            self._write(taken.plus(reserved, -1.0).plus(spent), spent_before.plus(spent))
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
