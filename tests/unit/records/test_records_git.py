"""The commit of a run: that of the repository around its directory, if there is one."""

from __future__ import annotations

import subprocess

import pytest

from pytest_crucible.records import files
from pytest_crucible.records.files import git_commit


@pytest.fixture
def git(tmp_path, monkeypatch):
    monkeypatch.delenv("GIT_DIR", raising=False)

    def run(*arguments: str) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        command = ["git", "-C", str(tmp_path), *names, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    run("init", "--initial-branch=work")
    return run


def test_a_folder_within_a_repository_has_its_commit_and_branch(git, tmp_path):
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "test_a.py").write_text("")
    git("add", ".")
    git("commit", "-m", "first")
    commit = git("rev-parse", "HEAD")

    assert git_commit(tmp_path / "suite") == {"commit": commit, "branch": "work", "dirty": False}
    (tmp_path / "suite" / "test_a.py").write_text("more")
    assert git_commit(tmp_path / "suite") == {"commit": commit, "branch": "work", "dirty": True}


def test_a_repository_without_a_commit_has_none(git, tmp_path):
    assert git_commit(tmp_path) is None


def test_outside_of_a_repository_no_process_is_started(tmp_path, monkeypatch):
    monkeypatch.delenv("GIT_DIR", raising=False)
    monkeypatch.setattr(files, "_git", lambda *arguments: pytest.fail("git was started"))

    assert git_commit(tmp_path) is None
