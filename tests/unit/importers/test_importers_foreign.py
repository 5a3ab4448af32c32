"""Renamed, mixed, foreign and damaged files, queries and data frames: a right reading, or a sentence with what to do."""

from __future__ import annotations

import gzip
import io
import json
import zipfile

import pandas as pd
import pytest
from imported_files import FILES

from pytest_crucible.importers.formats import read
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.compared_sources import compare_results


def peer_file(name: str) -> bytes:
    return (FILES / name).read_bytes()


def spreadsheet() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("xl/workbook.xml", "x")
    return content.getvalue()


READ = {
    "archive.json": ("inspect-v2.eval", "inspect"),
    "document.csv": ("deepeval-v2.json", "deepeval"),
    "document.jsonl": ("opik-v2.json", "opik"),
    "document.parquet": ("tau2-v2.json", "tau2"),
    "lines.jsonl.gz": ("weave-v2.jsonl", "weave"),
    "table.csv.gz": ("frame-index.csv", "table"),
}


@pytest.mark.parametrize("name", READ)
def test_a_renamed_or_compressed_file_is_read_by_its_content(name, tmp_path):
    source, harness = READ[name]
    content = peer_file(source)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)

    assert read(tmp_path / name).harness == harness


REFUSED = {
    "runs.db": (
        lambda: b"SQLite format 3" + bytes(100),
        "is a run store or another database of SQLite: name a stored run",
    ),
    "runs.duckdb": (lambda: bytes(8) + b"DUCK" + bytes(100), "is a database of DuckDB: read it with a query"),
    "frame.pkl": (
        lambda: b"\x80\x04\x95" + bytes(20),
        "is a pickle, which would run the code in it: write Parquet or CSV",
    ),
    "frame.arrow": (lambda: b"ARROW1" + bytes(20), "is a file of Arrow .*: write Parquet"),
    "lines.jsonl": (
        lambda: gzip.compress(peer_file("weave-v2.jsonl")),
        "is compressed by gzip: let its name end in .gz",
    ),
    "cut.jsonl.gz": (lambda: gzip.compress(peer_file("weave-v2.jsonl"))[:200], "cannot be read: Compressed file ended"),
    "sheet.xlsx": (spreadsheet, "is a spreadsheet: save its sheet as CSV"),
    "mixed.jsonl": (
        lambda: peer_file("weave-v2.jsonl") + peer_file("verifiers/v2/traces.jsonl"),
        "record 9 of .* has no 'op_name', as records of weave have: give a file of one format",
    ),
    "task.jsonl": (
        lambda: b'{"sample": "q1", "task": {"key": 1}, "score": 1}',
        "line 1 of .* has an object or a list in 'task', the column of the task: name a column of plain values",
    ),
    "arm.jsonl": (lambda: b'{"sample": "q1", "model": ["v2"], "score": 1}', "in 'model', the column of the arm"),
    "predictions.jsonl": (
        lambda: b'{"instance_id": "a", "model_patch": "x", "model_name_or_path": "v2"}',
        "is predictions for SWE-bench, without results: give the report of its evaluation",
    ),
    "score.jsonl": (
        lambda: peer_file("bfcl/v2/score/v2/non_live/BFCL_v4_simple_python_score.json"),
        "are scores of BFCL, which list only failures: keep the folders score and result of a run together",
    ),
    "replies.jsonl": (
        lambda: peer_file("bfcl/v2/result/v2/non_live/BFCL_v4_simple_python_result.json"),
        "is replies for BFCL, without scores: give the BFCL_v4_CATEGORY_score.json",
    ),
    "totals.json": (
        lambda: json.dumps({"config_general": {}, "config_tasks": {}, "results": {}}).encode(),
        "is the totals of a lighteval run: run it with --save-details",
    ),
    "counts.json": (
        lambda: json.dumps({"total_instances": 3, "submitted_ids": 3, "resolved_ids": 1}).encode(),
        "has no lists of instances: write the report again with SWE-bench 2 or later",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_foreign_or_damaged_file_is_refused_in_one_sentence(name, tmp_path):
    content, sentence = REFUSED[name]
    (tmp_path / name).write_bytes(content())

    with pytest.raises(SpecError, match=sentence) as raised:
        read(tmp_path / name)
    assert "\n" not in str(raised.value)


def difference(*sources, **options) -> tuple[float, int, int]:
    """Return the difference, the pairs and the lost samples of the only comparison."""
    (analysis,) = compare_results(*sources, **options).experiments
    (comparison,) = analysis.comparisons
    return round(comparison.difference, 6), comparison.pairs, comparison.lost


def test_a_query_two_frames_and_their_files_give_the_same_comparison():
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    path = FILES / "frame-polars.parquet"
    query = f"duckdb:SELECT question, model, quality FROM '{path}'"
    frames = [pd.read_parquet(path).query(f"model == '{arm}'").drop(columns="model") for arm in ("v2", "v1")]
    polars_frames = [polars.from_pandas(frame) for frame in frames]
    metrics = ["quality:higher"]

    assert duckdb.__version__
    assert difference(path, metrics=metrics) == (1.4, 5, 1)
    assert difference(query, metrics=metrics) == difference(path, metrics=metrics)
    assert difference(*frames, metrics=metrics) == difference(path, metrics=metrics)
    assert difference(*polars_frames, metrics=metrics) == difference(path, metrics=metrics)


def test_a_table_of_runs_is_compared_by_what_pairs_them():
    columns = {"sample": "params.seed", "arm": "params.model", "metrics": "metrics.accuracy"}

    assert difference(FILES / "mlflow-runs.csv", columns=columns) == (0.2, 6, 0)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (3, "candidate is int: give a data frame of pandas or polars, or the path of a file"),
        ("duckdb:SELEC 1", "DuckDB refused the query 'SELEC 1' .*: correct it"),
        ("duckdb:SELECT 1 AS a WHERE false", "has no rows: there is nothing to import"),
        ("duckdb:", "'duckdb:' has no rows: there is nothing to import"),
        ("duckdb:SELECT 1 AS id, 2 AS score, 3 AS score", "has several columns 'score': give each a name of its own"),
        (
            pd.DataFrame([[1, 2, 3]], columns=["id", "score", "score"]),
            "candidate has several columns 'score': give each",
        ),
        (pd.DataFrame({"a": [1]}), r"candidate has no column of sample ids \(it has a\)"),
    ],
)
def test_an_unusable_source_is_refused_in_one_sentence(source, sentence):
    with pytest.raises(SpecError, match=sentence):
        compare_results(source)


def test_a_damaged_file_beside_the_results_is_named(tmp_path):
    (tmp_path / "traces.jsonl").write_bytes(peer_file("verifiers/v1/traces.jsonl"))
    beside = tmp_path / "configs" / "resolved" / "eval.json"
    beside.parent.mkdir(parents=True)
    beside.write_text("[]", encoding="utf-8")

    with pytest.raises(SpecError, match=r"eval\.json is not a JSON object: copy the folder of the run again"):
        read(tmp_path / "traces.jsonl")


def test_a_metric_of_one_environment_is_not_lost_in_another(tmp_path):
    lines = peer_file("verifiers/v1/traces.jsonl").decode().splitlines()
    records = [json.loads(line) for line in lines]
    for record in records[8:]:
        record["env"]["id"] = "other"
        record["traces"][0]["metrics"] = {"width": 1.0}
    (tmp_path / "traces.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")

    first, other = read(tmp_path / "traces.jsonl").results
    assert {name for row in first.rows for name in (*row.scores, *row.lost)} == {"reward", "right", "short", "length"}
    assert {name for row in other.rows for name in (*row.scores, *row.lost)} == {"reward", "right", "short", "width"}


def test_an_epoch_that_is_no_number_is_not_read(tmp_path):
    lines = [json.loads(line) for line in peer_file("eee-lm-eval-v1_samples.jsonl").splitlines()]
    # A digit to `isdigit`, and to no number.
    odd = [{**line, "metadata": {**line["metadata"], "epoch": "²"}} for line in lines]
    path = tmp_path / "odd_samples.jsonl"
    path.write_text("\n".join(map(json.dumps, odd)))

    assert {row.repeat for row in read(path).results[0].rows} == {0}
