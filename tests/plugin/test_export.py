"""`crucible export` and reports of observations: every row of a run in a file for other programs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from pytest_crucible.cli import main

SCRIPTS = """
    from pytest_crucible import BackendError, Reply

    def answer(request):
        if request.sample == "q05":
            raise BackendError("rebooted, it says")
        return Reply(text=f'"{request.sample}", she said\\n你好', input_tokens=7)

    def base(request):
        return Reply(text="0")
"""
TEST = """
    import pytest
    from pytest_crucible import NotApplicable, metric

    @metric(kind="binary")
    def picky(reply, sample):
        return NotApplicable("too early") if sample.id == "q00" else True

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match", picky])
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler, score):
        score(topic="sums")
        return await sampler.generate(sample.input)
"""
ARMS = ("--crucible-adapter=scripted", "--compare=base")


def run_both(suite):
    suite.script(SCRIPTS)
    suite.test(TEST)
    suite.run(*ARMS)


@pytest.fixture
def stored(suite, monkeypatch):
    """A suite with a run in its store."""
    suite.prepare_once(run_both)
    monkeypatch.chdir(suite.path)
    return suite


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
        return rows
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


FORMATS = pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet"])


def export(*arguments: str) -> int:
    return main(["export", *arguments])


@FORMATS
def test_each_observation_is_a_row_also_where_it_is_lost(stored, extension, capsys):
    name = f"out.{extension}"
    assert export("-o", name) == 0

    rows = read(stored.path / name)
    run = rows[0]["run"]
    assert capsys.readouterr().out == f"118 observations of run {run} written to {name}\n"
    values = {(row["arm"], row["sample"], row["metric"]): row for row in rows if not row["lost"]}
    assert len(rows) == 118  # 2 arms x 20 samples x 3 metrics, less q05's in one arm, and one row that says so
    assert float(values["base", "q00", "exact_match"]["value"]) == 1.0
    assert float(values["base", "q01", "exact_match"]["value"]) == 0.0
    picky = values["scripted", "q00", "picky"]
    assert (picky["value"] or None, picky["reason"]) == (None, "too early")
    assert values["scripted", "q01", "topic"]["label"] == "sums"
    [lost] = [row for row in rows if row["lost"]]
    assert (lost["sample"], lost["metric"] or None, lost["lost"], lost["reason"]) == (
        "q05", None, "error", "rebooted, it says",
    )  # fmt: skip


@FORMATS
def test_each_reply_is_a_row_with_its_prompt(stored, extension):
    name = f"out.{extension}"
    export("-o", name, "--what", "replies")

    rows = {(entry["arm"], entry["sample"]): entry for entry in read(stored.path / name)}
    assert len(rows) == 39
    item = rows["scripted", "q03"]
    assert (item["input"], item["expected"], item["text"]) == ("3 + 3", "6", '"q03", she said\n你好')
    assert str(item["input_tokens"]) == "7"
    assert (item["output_tokens"] or None, item["finish"], str(item["skipped"])) == (None, "stop", "False")


@FORMATS
def test_events_are_a_row_each(stored, extension):
    name = f"out.{extension}"
    export("-o", name, "--what", "events")

    rows = read(stored.path / name)
    assert len(rows) == 40
    assert {row["name"] for row in rows} == {"request.stop"}
    [failed] = [row for row in rows if row["error"]]
    assert (failed["sample"], failed["arm"], failed["error"]) == ("q05", "scripted", "BackendError")


def test_a_run_is_found_by_its_beginning_and_otherwise_it_is_the_latest(stored, capsys):
    export("-o", "first.jsonl")
    stored.run("--crucible-adapter=base")
    export("-o", "latest.jsonl")
    runs = {name: read(stored.path / f"{name}.jsonl")[0]["run"] for name in ("first", "latest")}
    export(runs["first"][:8], "-o", "again.jsonl")

    assert runs["first"] != runs["latest"]
    assert (stored.path / "again.jsonl").read_bytes() == (stored.path / "first.jsonl").read_bytes()


def test_a_run_on_two_workers_is_exported_alike(stored):
    export("-o", "plain.csv")
    stored.run_n2(*ARMS, "--crucible-fresh")
    export("-o", "n2.csv")

    plain, workers = (read(stored.path / name) for name in ("plain.csv", "n2.csv"))
    assert [{**entry, "run": ""} for entry in plain] == [{**worker, "run": ""} for worker in workers]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-o", "out.xls"), "the file ends in '.xls': write one of .csv, .jsonl, .parquet"),
        (("-o", "out"), "the file has no extension: write one of .csv, .jsonl, .parquet"),
        (
            ("zz", "-o", "out.csv"),
            "run store '.crucible/crucible.db' has no run that begins with 'zz': the latest is '",
        ),
        (("-o", "nowhere/out.csv"), "'nowhere/out.csv' cannot be written: No such file or directory"),
        (
            ("-o", "out.csv", "--store", "gone.db"),
            "no run store at 'gone.db' in '{here}': run a suite first, or name another store",
        ),
    ],
)
def test_an_invalid_argument_is_refused_in_one_sentence(stored, arguments, sentence, capsys):
    status = export(*arguments)

    errors = capsys.readouterr().err
    assert (status, errors.count("\n")) == (4, 1)
    assert errors.startswith(f"crucible export: {sentence.replace('{here}', str(stored.path))}")


def test_an_unknown_arm_or_metric_is_refused_with_the_known_ones(stored, capsys):
    assert export("-o", "out.csv", "--what", "costs") == 4

    errors = capsys.readouterr().err
    assert all(name in errors for name in ("observations", "replies", "events"))


@FORMATS
def test_a_session_writes_observations_by_the_extension(suite, extension, monkeypatch):
    suite.script(SCRIPTS)
    suite.test(TEST)
    suite.run(*ARMS, f"--crucible-report=report.{extension}")
    monkeypatch.chdir(suite.path)
    export("-o", f"exported.{extension}")

    report = read(suite.path / f"report.{extension}")
    assert len(report) == 118
    assert report == read(suite.path / f"exported.{extension}")


@pytest.mark.slow
def test_a_missing_library_is_reported_before_any_request(suite):
    suite.script("def answer(request):\n    open('calls.txt', 'a').write('asked')\n    return '0'\nbase = answer")
    suite.pytester.makeconftest("import sys\nsys.modules['pyarrow'] = None")
    result = suite.run_new("--crucible-adapter=scripted", "--crucible-report=report.parquet")

    suite.refuses(
        result, 'Parquet files need pyarrow, which is not installed: pip install "pytest-crucible[[]parquet]"'
    )
    assert suite.calls() == []
