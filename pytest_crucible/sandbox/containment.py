"""The confinement that this machine offers, determined by asking its kernel."""

from __future__ import annotations

import errno
import os
import sys
import sysconfig
from dataclasses import dataclass

from pytest_crucible.sandbox import landlock
from pytest_crucible.sandbox.kernel import call, machine

# Landlock's version 3 (see `landlock.LEAST`) came with Linux 6.2.
NEEDED = "Linux 6.2 or newer with Landlock and seccomp, on x86_64 or aarch64"
_SYSTEM = ("/usr/lib", "/lib", "/lib64", "/usr/share/zoneinfo", "/dev/urandom", "/dev/zero")


@dataclass(frozen=True, slots=True)
class Containment:
    """The confinement available on this machine. If something is missing, no program runs."""

    files: bool
    """No file outside its own directory can be written, and none but Python's own libraries read."""
    calls: bool
    """No network, no further processes, no signals to others."""

    @property
    def complete(self) -> bool:
        return self.files and self.calls

    @property
    def missing(self) -> str:
        """A sentence that names the missing parts; empty if nothing is missing."""
        lacking = [word for word, holds in (("Landlock", self.files), ("seccomp filters", self.calls)) if not holds]
        return f"{' and '.join(lacking)} not available on this machine: needs {NEEDED}" if lacking else ""


def containment() -> Containment:
    """Return the confinement that the kernel offers.

    >>> containment().complete in (True, False)
    True
    """
    return Containment(files=landlock.version() >= landlock.LEAST, calls=_filters())


def _filters() -> bool:
    numbers = machine()
    if numbers is None:
        return False
    try:
        call(numbers.seccomp, 1, 0, None)
    except OSError as error:
        # A kernel with filters tries to read the one at address 0, and fails only there.
        return error.errno == errno.EFAULT
    return False


def readable() -> tuple[str, ...]:
    """Return the paths that a program may read: the libraries of this Python and of the system."""
    paths = sysconfig.get_paths()
    own = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    base = os.path.join(sys.base_prefix, sys.platlibdir)
    return tuple(dict.fromkeys([*own, base, os.path.join(sys.base_prefix, "lib"), *_SYSTEM]))
