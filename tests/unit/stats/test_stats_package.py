"""The package as a whole: its names, and what opening it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pytest_crucible import stats


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
