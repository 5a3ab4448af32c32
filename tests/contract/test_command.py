"""The `crucible` command: both ways to call it are one, and its help lists all that it does."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from pytest_crucible.cli import DID_NOT_HOLD, HELD, INTERRUPTED, USAGE, main
from pytest_crucible.commands import listings
from pytest_crucible.runs.plugins import commands

COMMANDS = commands()
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
    assert len(process.stdout.splitlines()) <= 42
    named = [set(line.replace(",", " ").replace(".", " ").split()) for line in process.stdout.splitlines()]
    assert all(
        any(set(word.split()) <= words for words in named)
        for name in COMMANDS
        for word in name.split(" --")[0].split()[:2]
    )


GROUPS = sorted({name.rpartition(" ")[0] for name in COMMANDS if " --" not in name})


def test_the_help_of_a_group_imports_no_command():
    script = (
        "import sys; from pytest_crucible.cli import main; [main([*group.split(), '--help']) for group in sys.argv[1:]]"
    )
    script += "; print('modules:', *sys.modules)"
    process = subprocess.run([sys.executable, "-c", script, *GROUPS], capture_output=True, text=True, check=True)
    modules = process.stdout.rpartition("modules:")[2].split()

    assert "pytest_crucible.cli" in modules
    homes = {reference.partition(":")[0] for reference in COMMANDS.values()}
    assert not homes & set(modules)
    assert not {"asyncio", "numpy", "pytest", "sqlite3"} & set(modules)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_of_its_own(name, crucible):
    page = {"--by": ["sex"], "--server": ["http://127.0.0.1:9/v1"], "--samples": ["10"]}.get(
        name.rpartition(" ")[2], []
    )
    output = crucible(*name.split(), *page, "--help")

    assert output.returncode == 0
    assert output.stdout.startswith(f"Usage: crucible {name.partition(' --')[0]} ")
    # `models watch` passes the output of pytest on: `crucible models --json` has what it registered. `view` serves pages,
    # and `init` writes files.
    assert "--json" in output.stdout or name in ("init", "models watch", "tinker server", "view")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tinker-sever",), "crucible: no command 'tinker-sever': did you mean 'tinker server'?"),
        (
            ("zzz",),
            f"crucible: no command 'zzz': there are {', '.join(dict.fromkeys(name.split()[0] for name in COMMANDS))}",
        ),
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


OLD_NAMES = {
    "fairness": "show --by",
    "explain": "show --why-better",
    "promote": "models promote",
    "gate": "models gate",
    "register": "models register",
    "rollback": "models rollback",
    "retire": "models retire",
    "watch": "models watch",
    "curve": "models curve",
    "schedule": "models schedule",
    "datasets": "data list",
    "check": "data check",
    "contamination": "data contamination",
    "data-drift": "data drift",
    "attacks": "guards attacks",
    "threshold": "guards threshold",
    "tinker-server": "tinker server",
}


@pytest.mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_an_old_name_suggests_the_new_one(old, new, capsys):
    assert main([old]) == USAGE
    assert capsys.readouterr().err == f"crucible: no command {old!r}: did you mean {new!r}?\n"


def test_without_a_command_the_help_is_an_error(crucible):
    output = crucible()

    assert (output.returncode, output.stdout) == (pytest.ExitCode.USAGE_ERROR, "")
    assert output.stderr.startswith("Usage: crucible ")


def test_a_group_without_a_command_lists(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    assert main(["guards", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert main(["models", "regster"]) == USAGE
    assert capsys.readouterr().err == "crucible models: no command 'models regster': did you mean 'models register'?\n"


def test_an_option_of_show_calls_a_page_with_options_of_its_own(capsys):
    assert main(["show", "--help"]) == 0
    assert "--by FIELD" in capsys.readouterr().out
    assert main(["show", "--by=sex", "--help"]) == 0
    assert "--reference SLICE" in capsys.readouterr().out
    assert main(["show", "--by=sex", "--why-better"]) == USAGE
    assert capsys.readouterr().err.startswith("crucible show: --by and --why-better are pages of their own")


def test_an_interrupted_command_prints_one_line(monkeypatch, capsys):
    @click.command("metrics")
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(listings, "list_metrics", interrupt)

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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("show --reference f", "--reference is an option of `crucible show --by`: add --by"),
        ("show --feature a:b", "--feature is an option of `crucible show --why-better`: add --why-better"),
        (
            "show latest --metric m",
            "--metric is an option of `crucible show --by and --why-better`: add --by or --why-better",
        ),
        ("show --by sex --sample q1", "--sample and --by are of different pages: leave one of them out"),
        (
            "show --why-better --reference=f",
            "--reference and --why-better are of different pages: leave one of them out",
        ),
        ("show --reasoning", "--reasoning prints the reasoning of one sample, and none was named: add --sample ID"),
        ("show --by sex --nope", "no such option '--nope'. Did you mean '--store'?"),
    ],
)
def test_an_option_of_another_page_names_the_page(arguments, sentence, capsys):
    assert (main(arguments.split()), capsys.readouterr().err) == (USAGE, f"crucible show: {sentence}\n")


def test_ctrl_c_while_plugins_are_loaded_is_one_sentence(monkeypatch, capsys):
    def press(words):
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_crucible.cli._command_words", press)

    assert (main(["show"]), capsys.readouterr().err) == (INTERRUPTED, "crucible: interrupted\n")


def test_commands_name_their_own_option_of_another_store(tmp_path, capsys):
    with contextlib.closing(sqlite3.connect(tmp_path / "newer.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE store_format (version)")
        connection.execute("INSERT INTO store_format VALUES (9999)")

    assert main(["show", "--store", str(tmp_path / "newer.db")]) == USAGE
    assert capsys.readouterr().err.endswith("upgrade pytest-crucible, or name another store with --store\n")
