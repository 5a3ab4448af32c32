"""Real git repositories of small suites, in which tests compare with commits."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """Run a git command in a folder and return its output. The settings of the user and of the machine have no effect."""
    who = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit_all(folder: Path, message: str = "a commit") -> str:
    """Commit all files of a folder, which becomes a repository, and return the SHA."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
        (folder / ".gitignore").write_text(".crucible\n__pycache__\n.pytest_cache\n*.json\n*.txt\n!requirements.txt\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", f"--message={message}")
    return git(folder, "rev-parse", "HEAD")


def worktrees(folder: Path) -> list[str]:
    """Return the worktrees of a repository, its own first."""
    lines = git(folder, "worktree", "list", "--porcelain").splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith("worktree ")]
