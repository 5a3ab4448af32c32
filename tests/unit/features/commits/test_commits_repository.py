"""Revisions, changes and worktrees of a repository."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from git_repositories import commit_all, git, worktrees

from pytest_crucible.features.commits.environment import find_leftovers
from pytest_crucible.features.commits.repository import Repository, find_repository, resolve_all
from pytest_crucible.records.errors import SpecError


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "app.py").write_text("VERSION = 1\n")
    commit_all(folder)
    return Repository(folder)


def test_a_revision_is_resolved_to_its_commit(repository):
    first = git(repository.folder, "rev-parse", "HEAD")
    second = commit_all(repository.folder)

    assert repository.resolve("commit:HEAD~1") == first
    assert repository.resolve(f"commit:{second[:8]}") == repository.resolve("commit:main") == second


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("commit:abc123", "commit:abc123: unknown revision"),
        ("commit:--help", "commit:--help: unknown revision"),
        ("commit:", "commit:: unknown revision: write --compare=commit:REV, such as commit:HEAD~1 or commit:main"),
    ],
)
def test_an_unknown_revision_is_refused(repository, name, sentence):
    with pytest.raises(SpecError) as error:
        repository.resolve(name)

    assert str(error.value) == sentence


def test_a_branch_that_only_the_remote_has_is_suggested(repository, tmp_path):
    git(repository.folder, "branch", "stable")
    git(tmp_path, "clone", "--quiet", str(repository.folder), "clone")

    with pytest.raises(SpecError, match=r"^commit:stable: unknown revision: did you mean commit:origin/stable\?$"):
        Repository(tmp_path / "clone").resolve("commit:stable")


def test_a_shallow_clone_is_named_as_the_reason(repository, tmp_path):
    commit_all(repository.folder)
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository.folder}", "clone")

    with pytest.raises(
        SpecError, match="unknown revision in this shallow clone: fetch more of its history, with `git fetch"
    ):
        Repository(tmp_path / "clone").resolve("commit:HEAD~1")


def test_a_folder_without_a_repository_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    with pytest.raises(
        SpecError, match=r"^commit:HEAD: .* is not in a git repository \(git rev-parse: fatal: not a git"
    ):
        find_repository(tmp_path, "commit:HEAD")


def test_a_machine_without_git_is_refused(repository, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(SpecError, match=r"git cannot be started .*: install it, or compare adapters"):
        find_repository(repository.folder, "commit:HEAD")


def test_revisions_that_cannot_be_resolved_are_left_for_later(repository):
    head = git(repository.folder, "rev-parse", "HEAD")

    assert resolve_all(repository.folder, ("v1", "commit:HEAD", "commit:abc123")) == {"commit:HEAD": head}


def test_changed_and_new_files_count_and_those_of_tests_do_not(repository):
    assert repository.changed_files() == []
    (repository.folder / "app.py").write_text("VERSION = 2\n")
    (repository.folder / "new file.py").write_text("")
    for name in (".crucible/crucible.db", "tests/__pycache__/app.pyc", "ignored.txt"):
        path = repository.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")

    assert repository.changed_files() == ["app.py", "new file.py"]


def test_a_worktree_changes_nothing_else_and_leaves_no_trace(repository, tmp_path):
    hook = repository.folder / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-was-run\n")
    hook.chmod(0o755)
    (repository.folder / "app.py").write_text("VERSION = 2\n")
    before = git(repository.folder, "status", "--porcelain=v2", "--branch"), git(repository.folder, "for-each-ref")
    tree = tmp_path / "tree"
    repository.add_worktree(tree, repository.resolve("commit:HEAD"))

    assert (tree / "app.py").read_text() == "VERSION = 1\n"
    assert list(repository.orphans()) == []
    repository.remove_worktree(tree)
    assert (
        git(repository.folder, "status", "--porcelain=v2", "--branch"),
        git(repository.folder, "for-each-ref"),
    ) == before
    assert worktrees(repository.folder) == [str(repository.folder)]
    assert not tree.exists()
    assert not (tmp_path / "hook-was-run").exists()


def test_variables_that_a_hook_of_git_has_set_have_no_effect(repository, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    commit_all(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))

    assert find_repository(repository.folder, "commit:HEAD") == repository


@pytest.mark.skipif(os.name != "posix", reason="processes are looked up with signals")
def test_the_worktree_of_a_killed_process_is_found_and_removed(repository, tmp_path):
    tree = tmp_path / "left" / "tree"
    program = (
        "import sys; from pathlib import Path; from pytest_crucible.features.commits.repository import Repository\n"
        "Repository(Path(sys.argv[1])).add_worktree(Path(sys.argv[2]), 'HEAD')"
    )
    subprocess.run([sys.executable, "-c", program, str(repository.folder), str(tree)], check=True)
    git(repository.folder, "worktree", "add", "--detach", str(tmp_path / "of the user"))
    leftovers = find_leftovers(repository.folder / ".crucible", 0.0)

    assert list(repository.orphans()) == [tree]
    assert set(leftovers) == {tree.parent, repository.folder / ".git/worktrees/tree"}
    repository.remove_orphans()
    assert worktrees(repository.folder) == [str(repository.folder), str(tmp_path / "of the user")]
    assert not tree.parent.exists()
