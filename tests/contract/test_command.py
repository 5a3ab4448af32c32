"""The `crucible` command: both ways to call it are one, and its help lists all that it does."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent.parent / "pyproject.toml"


def crucible(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_crucible", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_script_and_the_module_are_one():
    assert tomllib.loads(PROJECT.read_text())["project"]["scripts"] == {"crucible": "pytest_crucible.__main__:main"}


def test_the_help_lists_every_command():
    said = crucible("--help")

    assert said.returncode == 0
    assert said.stdout.startswith("usage: crucible ")
    for name in ("calibrate", "tinker-server"):
        assert f"\n    {name}" in said.stdout


@pytest.mark.parametrize("name", ["calibrate", "tinker-server"])
def test_every_command_has_a_help_of_its_own(name):
    said = crucible(name, "--help")

    assert said.returncode == 0
    assert said.stdout.startswith(f"usage: crucible {name} ")


def test_an_unknown_command_is_told_with_those_that_there_are():
    said = crucible("tinker-sever")

    assert said.returncode == 2
    assert "invalid choice: 'tinker-sever'" in said.stderr
    assert "tinker-server" in said.stderr
