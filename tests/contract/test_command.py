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


def test_the_script_and_the_module_run_the_same_function():
    assert tomllib.loads(PROJECT.read_text())["project"]["scripts"] == {"crucible": "pytest_crucible.cli:main"}


def test_the_help_lists_every_command():
    command = [sys.executable, "-m", "pytest_crucible", "--help"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert process.returncode == 0
    assert process.stdout.startswith("Usage: crucible ")
    assert all(f"\n  {name} " in process.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_of_its_own(name, crucible):
    output = crucible(name, "--help")

    assert output.returncode == 0
    assert output.stdout.startswith(f"Usage: crucible {name} ")
    # watch runs pytest, whose output it passes on: `crucible models --json` has what it registered. gate and tinker have
    # commands of their own.
    assert "--json" in output.stdout or name == "watch"


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
def test_wrong_arguments_are_a_usage_error_in_one_sentence(arguments, sentence, crucible):
    output = crucible(*arguments)

    assert (output.returncode, output.stdout, output.stderr) == (pytest.ExitCode.USAGE_ERROR, "", f"{sentence}\n")


def test_without_a_command_the_help_is_an_error(crucible):
    output = crucible()

    assert (output.returncode, output.stdout) == (pytest.ExitCode.USAGE_ERROR, "")
    assert output.stderr.startswith("Usage: crucible ")


def test_an_interrupted_command_prints_one_line(monkeypatch, capsys):
    @click.command("metrics")
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(metrics, "command", interrupt)

    assert main(["metrics"]) == pytest.ExitCode.INTERRUPTED
    assert capsys.readouterr().err.splitlines()[-1] == "crucible metrics: interrupted"


def test_exit_statuses_equal_those_of_pytest():
    assert (HELD, DID_NOT_HOLD) == (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    assert (INTERRUPTED, USAGE) == (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)


@pytest.mark.parametrize(("typed", "offered"), [("cal", "calibrate"), ("calibrate --rep", "--replicates")])
def test_a_shell_completes_commands_and_options(typed, offered):
    options = {
        "_CRUCIBLE_COMPLETE": "bash_complete",
        "COMP_WORDS": f"crucible {typed}",
        "COMP_CWORD": str(len(typed.split())),
    }
    process = subprocess.run(
        [sys.executable, "-c", "from pytest_crucible.cli import main; main([])"],
        env=os.environ | options, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert process.stdout.split() == [f"plain,{offered}"]
