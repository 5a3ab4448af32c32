"""The table of README.md is what the clients do.

Skipped where a client is not installed: `pip install -e . -r tests/openai_clients/requirements.txt`, in an environment of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.openai_clients.table import FAILS, PACKAGES, find_version

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).with_name("README.md")
COMMAND = "python -m tests.openai_clients.table"


def test_every_use_works_and_readme_has_the_table_that_the_command_prints():
    if missing := [package for package in PACKAGES.values() if not find_version(package)]:
        pytest.skip(f"{', '.join(missing)}: pip install -r tests/openai_clients/requirements.txt")
    done = subprocess.run(
        [sys.executable, *COMMAND.split()[1:]], cwd=ROOT, capture_output=True, text=True, timeout=1800
    )

    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    assert FAILS not in done.stdout
    assert f"`{COMMAND}`" in PAGE.read_text(encoding="utf-8")
    assert done.stdout in PAGE.read_text(encoding="utf-8")
