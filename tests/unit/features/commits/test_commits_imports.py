"""The process of a commit imports the worktree's modules, also where today's tree is installed in its Python."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

IMPORTS = importlib.util.find_spec("pytest_crucible.features.commits.child_imports").origin
PROGRAM = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("child_imports", {IMPORTS!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
today, worktree = sys.argv[1:3]
BEFORE
module.redirect_imports([today], worktree, [])
AFTER
"""


@pytest.fixture
def trees(tmp_path):
    """Today's tree has a package and a module of which the commit has only the first, with another version."""
    for name, version in (("today", 2), ("worktree", 1)):
        package = tmp_path / name / "src" / "app"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"VERSION = {version}\n")
        (package / "part.py").write_text(f"VERSION = {version}\n")
    (tmp_path / "today" / "src" / "newer.py").write_text("")
    (tmp_path / "today" / "site-packages").mkdir()
    (tmp_path / "today" / "site-packages" / "installed.py").write_text("")
    return tmp_path / "today", tmp_path / "worktree"


def run(trees, before, after):
    program = PROGRAM.replace("BEFORE", before).replace("AFTER", after)
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, trees)], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_a_path_of_todays_tree_is_that_of_the_worktree(trees):
    before = "sys.path.insert(0, today + '/src')"
    after = "import app, app.part; print(app.VERSION, app.part.VERSION, app.__file__)"

    assert run(trees, before, after) == f"1 1 {trees[1] / 'src' / 'app' / '__init__.py'}\n"


# As setuptools installs a project for development.
FINDER = """
import importlib.abc
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("app", "newer"):
            place = today + "/src/" + ("newer.py" if name == "newer" else "app/__init__.py")
            return importlib.util.spec_from_file_location(name, place)
sys.meta_path.append(Finder())
"""


def test_a_finder_of_todays_tree_finds_the_worktree(trees):
    assert run(trees, FINDER, "import app, app.part; print(app.VERSION, app.part.VERSION)") == "1 1\n"


def test_a_module_that_only_today_has_is_missing(trees):
    output = run(trees, FINDER, "import newer")

    assert output.splitlines()[-1] == "ModuleNotFoundError: No module named 'newer' (it is not in this commit)"


def test_what_is_installed_in_todays_tree_stays_where_it_is(trees):
    place = str(Path("today") / "site-packages" / "installed.py")
    output = run(trees, "sys.path.insert(0, today + '/site-packages')", "import installed; print(installed.__file__)")

    assert output.strip().endswith(place)
