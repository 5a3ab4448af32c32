"""`crucible init` in an empty folder: what it writes and runs, and what stops it before anything is written."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from openai_server import OpenAIServer

from pytest_crucible.cli import main
from pytest_crucible.features.init.data_file import SuiteData, choose_metric, example_rows, guess_fields
from pytest_crucible.features.init.init_command import WORKFLOW, FirstSuite
from pytest_crucible.features.init.reply_sources import embedded_source, results_source
from pytest_crucible.importers.results import ImportedFile, Results, Row
from pytest_crucible.records import Reply

pytestmark = pytest.mark.uses("init", "stages")
FILES = Path(__file__).parents[1] / "peers" / "files"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder, without keys and without a terminal."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "CRUCIBLE_STORE", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def server():
    with OpenAIServer.start(text="Paris") as scripted:
        yield scripted


def list_files(folder: Path) -> set[str]:
    """Return the files in the folder that a session does not write."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in paths if path.parts[0] not in (".crucible", "__pycache__", ".pytest_cache")}


def error(capsys, *arguments: str) -> str:
    assert main(["init", *arguments]) == 4
    text = capsys.readouterr().err
    assert text.startswith("crucible init: ")
    assert text.count("\n") == 1
    return text.removeprefix("crucible init: ").rstrip()


@pytest.mark.slow
def test_an_empty_folder_becomes_a_suite_whose_adapters_can_be_compared(folder, capfd):
    assert main(["init"]) == 0
    output = capfd.readouterr().out
    assert list_files(folder) == {"samples.jsonl", "crucible.toml", "test_first.py", ".github/workflows/evals.yml"}
    assert "metric contains_expected: the expected answers are texts" in output
    assert "contains_expected  mean       v1" in output
    *_, command = output.splitlines()

    assert command.strip() == "pytest --crucible-adapter=v2 --compare=v1"
    compared = subprocess.run([sys.executable, "-m", *command.split()], capture_output=True, text=True, check=False)
    assert (compared.returncode, "an improvement is proven" in compared.stdout) == (0, True)
    assert "v1: 5 of 31 replies reused from run" in compared.stdout


def test_a_server_is_asked_first_and_its_suite_runs(folder, server, capfd, monkeypatch):
    (folder / "capitals.csv").write_text(
        "question,answer,level\nCapital of France?,Paris,1\nCapital of Italy?,Rome,2\n"
    )
    status = main(["init", "--server", server.url, "--model", "m", "--data", "capitals.csv"])
    output = capfd.readouterr().out

    assert status == 0
    assert "  field     first value\n  question  Capital of France?\n" in output
    assert "2 samples: input = question, expected = answer" in output
    assert "contains_expected  mean       v1   0.500" in output
    assert list_files(folder) == {"capitals.csv", "crucible.toml", "test_first.py", ".github/workflows/evals.yml"}
    adapters = tomllib.loads((folder / "crucible.toml").read_text())["adapters"]
    assert adapters["v1"] == {"backend": "openai", "base_url": server.url, "model": "m"}
    assert adapters["v2"]["system"].startswith("Reply with the answer alone")
    assert "OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}" in (folder / ".github/workflows/evals.yml").read_text()
    assert 'fields={"input": "question", "expected": "answer"}' in (folder / "test_first.py").read_text()


def test_replies_of_a_results_file_are_the_adapters(folder, capfd):
    status = main(["init", "--results", str(FILES / "inspect-v2.eval")])
    output = capfd.readouterr().out

    assert status == 0
    assert list_files(folder) >= {"samples.jsonl", "crucible.toml", "test_first.py", "replies/v1.jsonl"}
    rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    assert (rows[0]["id"], rows[0]["expected"]) == ("sum-1", "2")
    assert "compare another adapter with v1 on all " in output
    assert "pytest --crucible-adapter=openai+http://HOST/v1#MODEL --compare=v1" in output


def test_arms_of_one_name_in_two_files_are_two_adapters():
    row = {"id": "a", "input": "1 + 1"}
    results = [
        Results(task="sums", arm="model", rows=[Row(sample="a", input="1 + 1", reply=Reply(text=text))])
        for text in ("2", "3")
    ]
    source = results_source([ImportedFile(path=Path("runs"), sha256="", harness="x", version="", results=results)])

    assert list(source.adapters) == ["v1", "v2"]
    assert [dict(each) for each in source.rows] == [row]
    assert {name: [reply["text"] for reply in replies] for name, replies in source.replies.items()} == {
        "replies/v1.jsonl": ["3"],
        "replies/v2.jsonl": ["2"],
    }


@pytest.mark.parametrize(("name", "extra"), [("a.jsonl", ""), ("a.parquet", "[parquet]")])
def test_the_workflow_installs_what_the_data_need(name, extra):
    suite = FirstSuite(source=embedded_source(), data=SuiteData(name=name), metric=choose_metric(["yes"]))

    assert f'pip install "pytest-crucible{extra} @ git+https://' in suite.files()[WORKFLOW]


@pytest.mark.parametrize("name", ["crucible.toml", "test_first.py", ".github/workflows/evals.yml", "samples.jsonl"])
def test_nothing_is_overwritten(folder, capsys, name):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("mine")

    assert error(capsys).startswith(f"{name} exists here, and crucible init never overwrites: ")
    assert (list_files(folder), (folder / name).read_text()) == ({name}, "mine")


def test_a_folder_whose_configuration_is_elsewhere_is_refused(folder, capsys, monkeypatch):
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "evals").mkdir()
    monkeypatch.chdir(folder / "evals")

    assert (
        error(capsys)
        == f"pytest's root directory is {folder}, and it reads crucible.toml there: run crucible init there"
    )


def test_adapters_of_pyproject_would_be_hidden(folder, capsys):
    (folder / "pyproject.toml").write_text('[tool.crucible.adapters]\nv1 = "recorded:v1.jsonl"\n')

    assert error(capsys) == "pyproject.toml has adapters (v1), which crucible.toml would hide: add to those"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--server", "http://127.0.0.1:9/v1"),
            "--server http://127.0.0.1:9/v1 lists no models: see whether it is the base URL of",
        ),
        (("--server", "http://127.0.0.1:9/v1", "--model", "m"), "reply: "),
        (("--server", "nowhere"), "adapter 'server' has an invalid base_url: "),
        (
            ("--server", "http://x/v1", "--key-env", "NO_SUCH_KEY"),
            "adapter 'server' has api_key_env = 'NO_SUCH_KEY', but ",
        ),
        (("--results", "gone.eval"), "'gone.eval' is not a file: "),
        (("--server", "http://x/v1", "--results", "a.eval"), "--server and --results are two sources of replies: "),
        (("--field", "input=body"), "--field names fields of a data file, and there is none: add --data FILE"),
        (("--data", "gone.csv"), "dataset 'gone.csv' does not exist"),
        (("--data", "broken.jsonl"), "line 1 of broken.jsonl "),
        (("--data", "texts.jsonl"), "line 1 of texts.jsonl has no 'input'"),
        (
            ("--data", "texts.jsonl", "--field", "input=body", "--field", "colour=x"),
            "--field input=body --field colour=x maps ['colour']",
        ),
    ],
)
def test_invalid_arguments_are_one_sentence_and_nothing_is_written(folder, capsys, arguments, sentence):
    (folder / "broken.jsonl").write_text("{")
    (folder / "texts.jsonl").write_text('{"body": "x"}\n')

    assert error(capsys, *arguments).startswith(sentence)
    assert list_files(folder) == {"broken.jsonl", "texts.jsonl"}


def test_a_wrong_key_is_said_before_anything_is_written(folder, server, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-123456")
    server.behave("locked", key="sk-right")
    text = error(capsys, "--server", server.url, "--model", "locked")

    assert text.startswith("key: model 'locked' at ")
    assert text.endswith("the key is that of OPENAI_API_KEY")
    assert "sk-wrong" not in text
    assert list_files(folder) == set()


def on_terminal(folder: Path, answers: bytes, *, interrupt_after: bytes = b"") -> tuple[int, str]:
    """Run the command on a terminal of its own; return its status and all that the terminal shows."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        # Programs that were started in the background ignore Ctrl-C, and so would this one.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.execvpe(sys.executable, [sys.executable, "-m", "pytest_crucible", "init"], {**os.environ, "TERM": "dumb"})
    os.write(terminal, answers)
    output = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        output += piece
        if interrupt_after and interrupt_after in output:
            interrupt_after = b""
            time.sleep(0.1)
            os.kill(pid, signal.SIGINT)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output.decode(errors="replace")


@pytest.mark.slow
def test_a_terminal_is_asked_for_what_is_missing(folder, server):
    (folder / "capitals.csv").write_text("question,answer\nCapital of France?,Paris\nCapital of Italy?,Rome\n")
    status, output = on_terminal(folder, f"{server.url}\n\nm\ncapitals.csv\n\n\n".encode())

    assert status == 0, output
    assert "Field of the input [question]:" in output
    assert "Field of the expected answer (-: none) [answer]:" in output
    assert "contains_expected  mean       v1   0.500" in output


@pytest.mark.slow
def test_ctrl_c_at_a_question_writes_nothing(folder):
    status, output = on_terminal(folder, b"", interrupt_after=b"Server URL")

    assert (status, list_files(folder)) == (2, set())
    assert "crucible init: interrupted" in output


def test_usual_names_of_fields_are_guessed():
    assert guess_fields({"prompt": "a", "target": "b", "uid": 1, "split": "test"}) == {
        "id": "uid", "input": "prompt", "expected": "target"
    }  # fmt: skip
    assert guess_fields({"body": "a"}) == {}


@pytest.mark.parametrize(
    ("expected", "metric"),
    [
        (["4", "12.5 km"], "final_number_matches"),
        (["Paris", "4"], "contains_expected"),
        ([["Paris", "paris"]], "contains_expected"),
        ([None, None], "truncated"),
        ([], "truncated"),
    ],
)
def test_expected_answers_choose_the_metric(expected, metric):
    assert choose_metric(expected).name == metric


def test_the_example_has_a_short_answer_to_each_question():
    rows = example_rows()

    assert len({row["input"] for row in rows}) == len(rows) == 31
    assert all(len(row["expected"].split()) == 1 for row in rows)
