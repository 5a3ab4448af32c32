"""`crucible metrics` and its kin."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.builtin import named_datasets
from pytest_crucible.cli import USAGE, main
from pytest_crucible.runs.plugins import metrics


def test_every_metric_has_a_line(capsys):
    assert main(["metrics"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == sorted(metrics())
    assert "binary    higher    0 to 1" in next(line for line in lines if line.startswith("exact_match"))
    assert all(line.endswith(".") for line in lines[1:])


def test_json_lists_every_metric(capsys):
    assert main(["metrics", "--json"]) == 0

    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(metrics())
    assert listed["latency_s"]["direction"] == "lower"
    assert listed["latency_s"]["high"] is None
    assert "no entailment scorer" in listed["entailment"]["version"]


# -- datasets -----------------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data directory that has a small part of GSM8K."""
    monkeypatch.setenv("CRUCIBLE_DATA", str(tmp_path))
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "gsm8k" / "test.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n' * 2)
    return tmp_path


def test_every_dataset_has_a_line(capsys, data):
    assert main(["data", "list"]) == 0

    *lines, _, where = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == sorted(named_datasets())
    assert lines[1 + sorted(named_datasets()).index("gsm8k")].split()[:4] == ["gsm8k", "1,319", "MIT", "yes"]
    assert where == f"files are in {data}"


def test_the_datasets_for_programs(capsys, data):
    assert main(["data", "list", "--json"]) == 0

    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["gsm8k"]["files"][0]["path"] == str(data / "gsm8k" / "test.jsonl")
    assert listed["humaneval"]["files"][0]["path"] is None
    assert (listed["mmlu"]["files"][0]["sha256_of"], len(listed["mmlu"]["files"])) == ("archive", 57)


def test_one_dataset_is_shown(capsys, data):
    assert main(["data", "list", "gsm8k"]) == 0

    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    values = {name: line.strip() for name, line in lines.items()}
    assert values["samples"] == "2"
    assert values["official"] == "no: a file differs from the published one"
    assert values["duplicate inputs"] == "1"
    assert values["first input"] == "1 + 1?"


def test_a_file_is_shown(capsys, tmp_path):
    rows = [{"id": n, "input": n % 3, "expected": "ab"[n % 2], "group": f"g{n % 2}", "note": None} for n in range(4)]
    path = tmp_path / "sums.json"
    path.write_text(json.dumps(rows))
    assert main(["data", "list", str(path), "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert (document["samples"], document["groups"], document["duplicates"]) == (4, 2, 1)
    assert document["values"] == {"expected": {"a": 2, "b": 2}}
    assert document["columns"] == ["id", "input", "expected", "group"]
    assert document["origin"] is None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("gsm8", "dataset 'gsm8' does not exist: did you mean 'gsm8k'? `crucible data list` lists them"),
        (
            "mmlv:anatomy",
            "dataset 'mmlv:anatomy' does not exist: did you mean 'mmlu:anatomy'? `crucible data list` lists",
        ),
        ("nothing.csv", "dataset 'nothing.csv' does not exist: give the path of a file"),
        ("humaneval", "CRUCIBLE_DATA is '"),
    ],
)
def test_a_dataset_that_is_not_there(capsys, data, name, sentence):
    assert main(["data", "list", name]) == USAGE
    assert capsys.readouterr().err.startswith(f"crucible data list: {sentence}")


def test_a_field_that_is_no_pair(capsys, data):
    assert main(["data", "list", "sums.csv", "--field", "input"]) == USAGE
    assert (
        capsys.readouterr().err
        == "crucible data list: --field input is not a pair: write OURS=THEIRS, such as input=question\n"
    )
