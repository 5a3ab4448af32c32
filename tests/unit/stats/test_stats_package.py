"""The package as a whole: its names, and what opening it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_crucible import stats


def test_every_public_name_is_found_and_typed():
    """The lazy names and those that a type checker sees are the same."""
    tree = ast.parse(Path(stats.__file__).read_text(encoding="utf-8"))
    typed = {alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}

    assert {name for name in typed if name} == set(dir(stats))
    assert all(getattr(stats, name) is not None for name in dir(stats))
    with pytest.raises(AttributeError, match="'wilson'"):
        _ = stats.wilson


def test_opening_the_package_opens_neither_numpy_nor_scipy():
    code = "import sys, pytest_crucible.stats; sys.exit('numpy' in sys.modules or 'scipy' in sys.modules)"

    assert (
        subprocess.run([sys.executable, "-c", code], cwd=Path(stats.__file__).parents[2], check=False).returncode == 0
    )


def test_no_module_opens_the_slow_scipy_stats():
    code = "import sys; from pytest_crucible.stats import *; import pytest_crucible.stats as s\n"
    code += "[getattr(s, name) for name in dir(s)]; sys.exit('scipy.stats' in sys.modules)"

    assert (
        subprocess.run([sys.executable, "-c", code], cwd=Path(stats.__file__).parents[2], check=False).returncode == 0
    )
