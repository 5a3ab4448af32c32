"""Runs code as a second user of this machine, where the tests run as root."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_crucible.records.files import file_lock

OTHER_USER = 65534
OTHER = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be two users of one machine"
)


def run_as_other_user(code: str, folder: Path, imports: str = "") -> str:
    """Run Python code as the user without rights, who can reach the folder, and return what it prints.

    `imports` is code that root runs before.
    """
    # It imports as root, because the other user may not be able to read this interpreter's libraries.
    become = f"os.setgroups([]); os.setgid({OTHER_USER}); os.setuid({OTHER_USER})"
    program = (
        f"import os, sys; sys.path[:] = {sys.path!r}; import pytest_crucible.store.opening\n{imports}\n{become}\n{code}"
    )
    # Workers of one pytest share these parents: one would close them again while another's code still runs.
    with file_lock(Path(__file__), wait=str), _parents_open(folder):
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


@contextlib.contextmanager
def _parents_open(folder: Path) -> Iterator[None]:
    """Let others go through the folder's parents: pytest closes its temporary folders."""
    closed = {path: stat.S_IMODE(path.stat().st_mode) for path in folder.parents if not path.stat().st_mode & 0o001}
    for path, mode in closed.items():
        path.chmod(mode | 0o011)
    try:
        yield
    finally:
        for path, mode in closed.items():
            path.chmod(mode)
