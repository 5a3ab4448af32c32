"""The state of the git repository that a run or a training used."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any


def git_commit(root: Path) -> dict[str, Any] | None:
    """Return commit, branch and whether files are uncommitted; None outside a repository or without git."""
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
