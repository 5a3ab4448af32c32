"""What a run depended on: versions, machine, commit. Gathered when a session opens, never before."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = ("pytest-crucible", "pytest", "numpy", "scipy", "sqlalchemy")


def environment() -> dict[str, Any]:
    """Python, platform and the versions of the packages that compute."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def git_commit(root: Path) -> dict[str, Any] | None:
    """Commit, branch and whether something is uncommitted; None outside a repository or without git."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {
        "commit": commit,
        "branch": _git(root, "rev-parse", "--abbrev-ref", "HEAD"),
        "dirty": bool(_git(root, "status", "--porcelain", "--untracked-files=no")),
    }


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def now() -> str:
    """As run records tell times: ISO 8601, in UTC, with milliseconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
