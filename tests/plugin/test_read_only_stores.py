"""Commands that read show a store that may not be written, such as an artifact of CI; those that write refuse in a sentence."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from other_user import OTHER, OTHER_USER, run_as_other_user

from pytest_crucible.records.settings import DEFAULT_STORE
from pytest_crucible.runs import load, run_store

pytestmark = pytest.mark.uses("provenance", "slices")

READING = [
    ["show", "show --sample q01", "show --why-better", "why", "trace latest q01"],
    [
        "verify",
        "runs",
        "compare latest:v2 latest:v1",
        "trend exact_match",
        "report -o REPORTS/run.md -o REPORTS/run.jsonl",
        "export -o REPORTS/run.csv",
    ],
]
REFUSAL = "run store 'FOLDER/runs.db' is read-only: make it writable, or name another store with --store"


@pytest.fixture
def closed_store(suite, tmp_path):
    """The folder of a store in which another user can write nothing; the user may write reports into the temporary folder."""
    tmp_path.chmod(0o777)
    folder = suite.path / "closed"
    suite.run("--crucible-adapter=v2", "--compare=v1", f"--crucible-store={folder / 'runs.db'}")
    shutil.copytree(folder, suite.path / "open")
    (folder / "runs.db").chmod(0o444)
    folder.chmod(0o555)
    if not os.geteuid():
        # A store that is to be written has to be one's own.
        os.chown(folder / "runs.db", OTHER_USER, OTHER_USER)
    yield folder
    folder.chmod(0o755)


def run_commands(commands, folder: Path, reports: Path) -> list[str]:
    """Return the exit status and the last line of each command, as the other user runs it."""
    lines = [
        [*command.replace("REPORTS", str(reports)).split(), "--store", f"{folder}/runs.db"] for command in commands
    ]
    code = f"""
import contextlib, io
from pytest_crucible.cli import main
for line in {lines!r}:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = main(line)
    if IS_SHOWN:
        print(status, output.getvalue().strip().splitlines()[-1])
"""
    # Once as root, for the imports: the other user may not be able to read this interpreter's libraries.
    (reports / "imports").mkdir()
    as_root = code.replace(str(folder), str(folder.parent / "open")).replace(f"{reports}/", f"{reports}/imports/")
    return run_as_other_user(f"IS_SHOWN = True\n{code}", folder, f"IS_SHOWN = False\n{as_root}").splitlines()


@OTHER
@pytest.mark.parametrize("commands", READING, ids=["of a sample", "of a run"])
def test_a_store_that_may_not_be_written_is_read(closed_store, commands, tmp_path):
    before = (closed_store / "runs.db").read_bytes()

    lines = run_commands(commands, closed_store, tmp_path)

    assert {command: line for command, line in zip(commands, lines, strict=True) if not line.startswith("0 ")} == {}
    assert [path.name for path in closed_store.iterdir()] == ["runs.db"]
    assert (closed_store / "runs.db").read_bytes() == before


def test_what_reads_writes_nothing_beside_a_store_that_may_not_be_written(suite, crucible, monkeypatch):
    suite.run("--crucible-adapter=v2", "--compare=v1")
    store = suite.path / DEFAULT_STORE
    before = store.read_bytes()
    monkeypatch.setattr(run_store, "_is_writable", lambda path: False)

    def refuse(location: str) -> None:
        raise AssertionError(f"{location} is opened for writing")

    monkeypatch.setattr("pytest_crucible.store.runs.open_database", refuse)
    status, *_ = crucible("doctor", "latest")
    _, checked, _ = crucible("data", "check", "questions.jsonl")
    scores = load().observations()

    assert (status, checked.count("questions.jsonl: 20 samples"), len(scores)) == (0, 1, 40)
    assert store.read_bytes() == before


@OTHER
@pytest.mark.parametrize("command", ["gc --delete", "runs tag latest best"])
def test_a_command_that_writes_names_its_own_option(closed_store, command, tmp_path):
    [line] = run_commands([command], closed_store, tmp_path)

    name = " ".join(word for word in command.split()[:2] if not word.startswith("-"))
    assert line == f"4 crucible {name}: {REFUSAL.replace('FOLDER', str(closed_store))}"
