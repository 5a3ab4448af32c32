"""Copies of directories: links stay within the copy, and nothing is left that cannot be removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_crucible.features.agents.copies import copy_tree, hash_tree, remove_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "a.txt").write_text("a")
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o555)
    return source


def test_a_copy_has_the_files_with_their_modes(tree, tmp_path):
    copy_tree(tree, tmp_path / "copy")

    assert (tmp_path / "copy" / "inner" / "a.txt").read_text() == "a"
    assert (tmp_path / "copy" / "run.sh").stat().st_mode & 0o777 == 0o555
    assert (tmp_path / "copy" / "run.sh").stat().st_mtime == (tree / "run.sh").stat().st_mtime


def test_links_lead_to_the_copy_and_not_to_the_original(tree, tmp_path):
    (tree / "absolute").symlink_to(tree / "inner" / "a.txt")
    (tree / "folder").symlink_to(tree / "inner")
    (tree / "relative").symlink_to("inner/a.txt")
    (tree / "outside").symlink_to("/usr")
    (tree / "nowhere").symlink_to("gone")
    (tree / "round").symlink_to(".")
    copy = tmp_path / "copy"
    copy_tree(tree, copy)
    (copy / "absolute").write_text("new")
    (copy / "folder" / "b.txt").write_text("b")

    assert (copy / "relative").read_text() == "new"
    assert (copy / "inner" / "b.txt").exists()
    assert (tree / "inner" / "a.txt").read_text() == "a"
    assert not (tree / "inner" / "b.txt").exists()
    assert os.readlink(copy / "outside") == "/usr"
    assert os.readlink(copy / "nowhere") == "gone"


def test_one_file_is_copied_into_the_directory(tree, tmp_path):
    (tmp_path / "copy").mkdir()
    copy_tree(tree / "run.sh", tmp_path / "copy")

    assert (tmp_path / "copy" / "run.sh").read_text() == "#!/bin/sh\n"


def test_a_pipe_is_refused_and_not_waited_for(tree, tmp_path):
    os.mkfifo(tree / "pipe")

    with pytest.raises(OSError, match="pipe is neither a file, a directory nor a link"):
        copy_tree(tree, tmp_path / "copy")


def test_directories_that_cannot_be_written_are_removed_and_what_links_lead_to_stays(tree, tmp_path):
    copy = tmp_path / "copy"
    copy_tree(tree, copy)
    (copy / "link").symlink_to(tree)
    (copy / "inner").chmod(0o555)
    copy.chmod(0o755)
    remove_tree(copy)

    assert not copy.exists()
    assert (tree / "inner" / "a.txt").exists()


def test_what_an_agent_has_put_in_the_place_of_a_file_is_replaced_and_not_written_through(tree, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("mine")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "inner").symlink_to(outside)
    (copy / "run.sh").mkdir()
    (copy / "run.sh" / "x").write_text("x")
    copy_tree(tree, copy)

    assert (outside / "a.txt").read_text() == "mine"
    assert (copy / "inner" / "a.txt").read_text() == "a"
    assert (copy / "run.sh").is_file()


def test_the_hash_of_a_directory_is_that_of_its_copy_whatever_an_interpreter_compiles(tree, tmp_path):
    copy_tree(tree, tmp_path / "copy")
    (tmp_path / "copy" / "__pycache__").mkdir()
    (tmp_path / "copy" / "__pycache__" / "a.pyc").write_text("compiled")

    assert hash_tree(tmp_path / "copy") == hash_tree(tree)


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / "inner" / "a.txt").write_text("b"),
        lambda tree: (tree / "inner" / "a.txt").rename(tree / "inner" / "b.txt"),
        lambda tree: (tree / "run.sh").chmod(0o444),
        lambda tree: (tree / "link").symlink_to("inner"),
        lambda tree: (tree / "empty").mkdir(),
    ],
    ids=["contents", "name", "program", "link", "directory"],
)
def test_the_hash_of_a_directory_changes_with_what_is_in_it(tree, change):
    before = hash_tree(tree)

    change(tree)

    assert hash_tree(tree) != before


def test_one_file_has_a_hash_too(tree):
    before = hash_tree(tree / "inner" / "a.txt")

    (tree / "inner" / "a.txt").write_text("b")

    assert hash_tree(tree / "inner" / "a.txt") != before
