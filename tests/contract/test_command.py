"""The `crucible` command: both ways to call it are one, and its help lists all that it does."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from pytest_crucible.builtin import COMMANDS
from pytest_crucible.cli import DID_NOT_HOLD, HELD, INTERRUPTED, USAGE, main
from pytest_crucible.commands import metrics

PROJECT = Path(__file__).parent.parent.parent / "pyproject.toml"


@pytest.fixture
def crucible(python):
    """Run the command in a process of its own."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "pytest_crucible", *arguments], capture_output=True, text=True, check=False
        )

    return run


def test_the_script_and_the_module_are_one():
    assert tomllib.loads(PROJECT.read_text())["project"]["scripts"] == {"crucible": "pytest_crucible.cli:main"}


def test_the_help_lists_every_command():
    command = [sys.executable, "-m", "pytest_crucible", "--help"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert said.returncode == 0
    assert said.stdout.startswith("Usage: crucible ")
    assert all(f"\n  {name} " in said.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_of_its_own(name, crucible):
    said = crucible(name, "--help")

    assert said.returncode == 0
    assert said.stdout.startswith(f"Usage: crucible {name} ")
    # watch runs pytest, whose output it passes on: `crucible models --json` has what it registered. gate and tinker have
    # commands of their own.
    assert "--json" in said.stdout or name == "watch"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tinker-sever",), "crucible: no command 'tinker-sever': did you mean 'tinker-server'?"),
        (("zzz",), f"crucible: no command 'zzz': there are {', '.join(COMMANDS)}"),
        (("metrics", "--jason"), "crucible metrics: no such option '--jason'. Did you mean '--json'?"),
        (
            ("export",),
            "crucible export: --what observations needs -o FILE: name a file that ends in .csv, .jsonl, .parquet",
        ),
        (
            ("calibrate", "--seed=x"),
            "crucible calibrate: invalid value for '--seed': 'x' is not a valid integer",
        ),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_and_a_usage_error(arguments, sentence, crucible):
    said = crucible(*arguments)

    assert (said.returncode, said.stdout, said.stderr) == (pytest.ExitCode.USAGE_ERROR, "", f"{sentence}\n")


def test_without_a_command_the_help_is_an_error(crucible):
    said = crucible()

    assert (said.returncode, said.stdout) == (pytest.ExitCode.USAGE_ERROR, "")
    assert said.stderr.startswith("Usage: crucible ")


def test_a_command_that_is_interrupted_says_so(monkeypatch, capsys):
    @click.command("metrics")
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(metrics, "command", interrupted)

    assert main(["metrics"]) == pytest.ExitCode.INTERRUPTED
    assert capsys.readouterr().err.splitlines()[-1] == "crucible metrics: interrupted"


def test_exit_statuses_mean_what_they_mean_to_pytest():
    assert (HELD, DID_NOT_HOLD) == (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    assert (INTERRUPTED, USAGE) == (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)


@pytest.mark.parametrize(("typed", "offered"), [("cal", "calibrate"), ("calibrate --rep", "--replicates")])
def test_a_shell_completes_commands_and_options(typed, offered):
    asked = {
        "_CRUCIBLE_COMPLETE": "bash_complete",
        "COMP_WORDS": f"crucible {typed}",
        "COMP_CWORD": str(len(typed.split())),
    }
    said = subprocess.run(
        [sys.executable, "-c", "from pytest_crucible.cli import main; main([])"],
        env=os.environ | asked, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert said.stdout.split() == [f"plain,{offered}"]
