"""Tables of any origin: long and wide, by the usual names of columns or by those that the user gives."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.importers.formats import read
from pytest_crucible.importers.results import number
from pytest_crucible.importers.table_rows import split_names
from pytest_crucible.records.errors import SpecError


@pytest.fixture
def table(tmp_path):
    def write(text: str, name: str = "results.csv", **columns: str):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return read(path, columns=columns)

    return write


def scores(results) -> dict:
    return {(row.sample, row.repeat): dict(row.scores) for row in results.rows}


def test_a_column_whose_name_has_a_comma_is_quoted(table):
    text = 'id,correct,"group, a",b\na,1,x,y\n'

    imported = table(text, metadata='b,"group, a"')

    assert imported.results[0].rows[0].metadata == {"b": "y", "group, a": "x"}
    with pytest.raises(SpecError, match=r"did you mean 'group, a'\? there are id, correct, \"group, a\", b"):
        table(text, metadata="group, a")


@pytest.mark.parametrize("name", ["results", "rows", "samples"])
def test_rows_under_a_usual_name_beside_facts_of_the_run_are_a_table(table, name):
    rows = [{"task_id": "a", "is_resolved": True}, {"task_id": "b", "is_resolved": False}]

    imported = table(json.dumps({"model": "m", "accuracy": 0.5, name: rows, "failed": [{"why": "b"}]}), "run.json")

    assert scores(imported.results[0]) == {("a", 0): {"is_resolved": True}, ("b", 0): {"is_resolved": False}}


def test_of_two_lists_of_rows_none_is_taken(table):
    rows = [{"id": "a", "correct": 1}]

    with pytest.raises(SpecError, match="was not recognised"):
        table(json.dumps({"samples": rows, "results": rows}), "run.json")


def test_numbers_that_name_a_row_are_no_metrics(table):
    imported = table("id,contest_id,row_index,grid,gini_index,correct\na,1,0,3,0.2,1\nb,2,1,4,0.3,0\n")

    assert imported.notes == ("results.csv: these columns are taken as metrics: grid, gini_index, correct",)


@given(st.lists(st.text(st.characters(exclude_characters='"'), min_size=1), min_size=1))
def test_names_of_columns_are_read_back_from_a_list(names):
    assert split_names(",".join(f'"{name}"' for name in names)) == names


NO_VALUE = "the table has no value"
ROWS = {
    "metadata columns": (
        "id,correct,topic,year\na,1,physics,1999\nb,0,,2001\n",
        {"metadata": [{"topic": "physics", "year": "1999"}, {"year": "2001"}], "scores": [{"correct": 1.0}, {"correct": 0.0}]},
    ),
    "a metric in each row": (
        "sample,arm,metric,value,repeat\na,v1,f1,0.5,1\na,v1,em,1,1\na,v1,f1,0.25,2\na,v1,em,,2\n",
        {"repeat": [0, 1], "scores": [{"f1": 0.5, "em": 1.0}, {"f1": 0.25}], "lost": [{}, {"em": NO_VALUE}]},
    ),
    "a lost column, without which an empty value does not apply": (
        "sample,metric,value,reason,lost\na,f1,0.5,,\na,em,,no question,\nb,f1,,down,error\nb,,,,\n",
        {"scores": [{"f1": 0.5, "em": None}, {}], "lost": [{}, {"f1": "down", "em": "down"}]},
    ),
    "a metric named lost": ("sample,lost\na,0\nb,1\n", {"sample": ["a", "b"], "scores": [{"lost": 0.0}, {"lost": 1.0}]}),
    "a repetition number": ("task_id,repetition_number,correct\na,0,1\na,1,0\n", {"sample": ["a", "a"], "repeat": [0, 1]}),
    "a completion id": ("task_id,completion_id,correct\na,0,1\na,1,0\n", {"sample": ["a", "a"], "repeat": [0, 1]}),
    "a completion id that is not a number": (
        "id,completion_id,correct\na,cmpl-7f,1\nb,cmpl-90,0\n", {"sample": ["a", "b"], "repeat": [0, 0]}
    ),
    "empty cells": (
        "id,score,error\na,0.5,\nb,NaN,\nc,,server gone\n",
        {"scores": [{"score": 0.5}, {}, {}], "lost": [{}, {"score": NO_VALUE}, {"score": "server gone"}]},
    ),
    "a bad cell": (
        "id,metric,value\na,acc,1\nb,acc,#N/A\nc,acc,0\n",
        {"lost": [{}, {"acc": "the value '#N/A' is not a number"}, {}]},
    ),
    "text with some numbers": (
        "id,acc,topic\na,1,algebra\nb,0,2024\nc,1,sets\n", {"scores": [{"acc": 1.0}, {"acc": 0.0}, {"acc": 1.0}]}
    ),
    **{name: (f"{name},correct\na,1\nb,0\n", {"sample": ["a", "b"]})
       for name in ("item_id", "task_id", "user_input", "example_id")},
}  # fmt: skip
"""Tables, and fields of the rows that are read."""


@pytest.mark.parametrize("name", ROWS)
def test_columns_are_read_by_their_usual_names(table, name):
    text, expected = ROWS[name]
    columns = {"metadata": "topic,year"} if "metadata" in expected else {}
    (results,) = table(text, **columns).results

    assert {name: [getattr(row, name) for row in results.rows] for name in expected} == expected
    assert results.repeats == 1 + max(row.repeat for row in results.rows)


def test_wide_each_column_of_numbers_is_a_metric(table):
    imported = table("id,model,correct,f1,reply\na,v2,True,0.5,four\nb,v2,no,1,five\na,v1,0,0.25,six\n")

    assert [arm.arm for arm in imported.results] == ["v2", "v1"]
    assert scores(imported.results[0]) == {
        ("a", 0): {"correct": True, "f1": 0.5},
        ("b", 0): {"correct": False, "f1": 1.0},
    }
    assert imported.results[0].rows[0].reply.text == "four"
    assert imported.notes == ("results.csv: these columns are taken as metrics: correct, f1",)


def test_the_user_names_the_roles_of_columns(table):
    imported = table("q,who,a,b,size\n1,x,0.5,1,7\n", sample="q", arm="who", metrics="a,b")

    assert scores(imported.results[0]) == {("1", 0): {"a": 0.5, "b": 1.0}}
    assert imported.results[0].arm == "x"


@pytest.mark.parametrize(
    ("text", "columns", "facts"),
    [
        ("id,question,expected,score\na,2+2?,4,1\nb,3+3?,6,1\n", {}, ("2+2?", None)),
        ("id,input,expected,score\na,2+2?,four,1\nb,3+3?,six,1\n", {}, ("2+2?", "four")),
        ("id,text,score\na,2+2?,1\n", {"input": "text"}, ("2+2?", None)),
        # The samples are named by it; and a prompt that differs within a sample is not the sample's.
        ("question,score\n2+2?,1\n", {}, (None, None)),
        ("id,repeat,prompt,score\na,0,short,1\na,1,long,1\n", {}, (None, None)),
        ("id,input,score\na,,1\n", {}, (None, None)),
    ],
    ids=["question", "expected", "named by the user", "ids", "prompts of repeats", "empty"],
)
def test_a_sample_has_the_input_and_the_expected_value_of_their_columns(table, text, columns, facts):
    row = table(text, **columns).results[0].rows[0]

    assert (row.input, row.expected) == facts


def test_a_usual_column_of_inputs_that_has_numbers_is_a_metric(table):
    imported = table("id,input,score\na,12,1\nb,30,0\n")

    assert scores(imported.results[0])["a", 0] == {"input": 12, "score": 1}


def test_each_arm_may_be_a_column(table):
    new, old = table("id,new,old,page\na,1,0,p\nb,,1,q\n", arms="new,old", group="page").results

    assert (new.arm, old.arm) == ("new", "old")
    assert scores(new) == {("a", 0): {"score": 1.0}, ("b", 0): {}}
    assert scores(old) == {("a", 0): {"score": 0.0}, ("b", 0): {"score": 1.0}}
    assert [row.group for row in new.rows] == ["p", "q"]


@pytest.mark.parametrize("columns", [{}, {"metrics": "acc"}], ids=["found", "named"])
def test_a_bad_cell_is_one_lost_value(table, columns):
    rows = "".join(f"q{k},{'ERROR' if k == 7 else k % 2}\n" for k in range(20))
    (results,) = table(f"id,acc\n{rows}", **columns).results

    assert [row.sample for row in results.rows if row.scores] == [f"q{k}" for k in range(20) if k != 7]
    assert results.rows[7].lost == {"acc": "the value 'ERROR' is not a number"}


@pytest.mark.parametrize(
    "document",
    [
        {"columns": ["inputs", "exact_match/v1/score", "outputs"], "data": [["1 + 1", 1.0, "2"], ["2 + 2", 0.0, "5"]]},
        [{"inputs": "1 + 1", "exact_match/value": True}, {"inputs": "2 + 2", "exact_match/value": False}],
    ],
    ids=["columns and data", "a list of rows"],
)
def test_tables_of_mlflow_and_wandb_are_read(table, document):
    imported = table(json.dumps(document), name="eval_results_table.json")

    assert scores(imported.results[0]) == {("1 + 1", 0): {"exact_match": 1.0}, ("2 + 2", 0): {"exact_match": 0.0}}
    assert imported.results[0].arm == "eval_results_table"


def test_tasks_and_groups_are_read_from_columns(table):
    imported = table(
        '{"task": "t", "id": 1, "group": "g", "ok": true}\n{"task": "u", "id": 1, "group": "h", "ok": false}\n',
        "r.jsonl",
    )

    assert [(results.task, results.rows[0].group) for results in imported.results] == [("t", "g"), ("u", "h")]


def test_tasks_that_are_named_as_metadata_are_parts_of_one_experiment(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("arm,id,task,ok\nv2,a,pick,1\nv2,b,pour,1\nv1,a,pick,0\nv1,b,pour,1\n", encoding="utf-8")

    two_tasks, one_experiment = (read(path, columns=columns).results for columns in ({}, {"metadata": "task"}))

    assert sorted({results.task for results in two_tasks}) == ["pick", "pour"]
    assert len({results.task for results in one_experiment}) == 1
    assert [row.metadata for row in one_experiment[0].rows] == [{"task": "pick"}, {"task": "pour"}]


@pytest.mark.parametrize(
    ("text", "columns", "sentence"),
    [
        (
            "who,score\n1,0.5\n",
            {},
            r"has no column of sample ids \(it has who, score\): name it with --column sample=NAME",
        ),
        ("id,said\n1,four\n", {}, "has no column of numbers beside id: name the scores with --column metrics=A,B"),
        ("id,score\n1,1\n1,0\n", {}, "line 3 of .* has sample '1' of 'results' again in repeat 0: name what tells"),
        ("id,score\n1,1\n", {"sample": "idd"}, "no column named 'idd' has values: did you mean 'id'"),
        ("id,score\n1,1\n", {"smple": "id"}, "--column smple=id: the roles are sample, arm"),
        ("id,repeat,score\n1,first,1\n", {}, "line 2 of .* has repeat 'first': repeats are counted in whole numbers"),
        ("id,score\na,1\n,1\n", {}, "line 3 of .* has no 'id': every row needs the id of its sample"),
        (
            "id,group,score\na,g,1\nb,,1\nc,h,0\n",
            {},
            r"has no group for sample 'b' of 'results' \(1 row of 3\), but others have one: give it to all samples or to",
        ),
    ],
)
def test_a_table_that_is_not_of_results_is_an_error(table, text, columns, sentence):
    with pytest.raises(SpecError, match=sentence):
        table(text, **columns)


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 50), st.sampled_from("xy")),
        st.floats(-1e6, 1e6) | st.booleans() | st.none(),
        min_size=1,
    )
)
def test_long_and_wide_tables_have_equal_rows(tmp_path_factory, values):
    """Whatever is scored, lost or absent; a table needs one score."""
    folder = tmp_path_factory.mktemp("tables")
    samples = sorted({sample for sample, _ in values})
    metrics = sorted({metric for _, metric in values})
    metrics = [name for name in metrics if any(values.get((sample, name)) is not None for sample in samples)]
    if not metrics:
        return
    with (folder / "long.csv").open("w", newline="") as file:
        rows = [("sample", "metric", "value")]
        csv.writer(file).writerows([*rows, *((s, m, values.get((s, m))) for s in samples for m in metrics)])
    with (folder / "wide.csv").open("w", newline="") as file:
        rows = [[s, *(values.get((s, m)) for m in metrics)] for s in samples]
        csv.writer(file).writerows([["sample", *metrics], *rows])
    long = read(folder / "long.csv").results[0]
    wide = read(folder / "wide.csv", columns={"metrics": ",".join(metrics)}).results[0]

    assert [(row.sample, row.scores, row.lost) for row in long.rows] == [
        (row.sample, row.scores, row.lost) for row in wide.rows
    ]


@pytest.mark.parametrize("cell", ["", "nan", "None", None, math.nan, math.inf, "1e999"])
def test_an_empty_cell_is_nan(cell):
    assert math.isnan(number(cell))


@pytest.mark.parametrize("cell", ["four", "0x10", {"a": 1}, [1]])
def test_text_is_not_a_number(cell):
    assert number(cell) is None


def test_a_table_is_recognised_by_its_content(tmp_path: Path):
    path = tmp_path / "results.txt"
    path.write_text('{"id": 1, "ok": true}\n{"id": 2, "ok": true}\n')

    assert read(path).harness == "table"


@pytest.fixture
def parquet(tmp_path):
    table = {"id": ["a", "b"], "score": [0.5, None], "reply": ["four", None], "steps": [[1, 2], None]}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "results.parquet")
    return tmp_path / "results.parquet"


def test_a_parquet_file_is_a_table_and_its_nulls_are_lost(parquet):
    (results,) = read(parquet).results

    assert [(row.sample, row.scores, row.lost) for row in results.rows] == [
        ("a", {"score": 0.5}, {}),
        ("b", {}, {"score": "the table has no value"}),
    ]


def test_a_parquet_file_that_was_cut_short_is_an_error(parquet):
    parquet.write_bytes(parquet.read_bytes()[:-20])

    with pytest.raises(SpecError, match=r"results.parquet cannot be read as Parquet \(.*\)$"):
        read(parquet)


def test_a_metric_of_one_task_is_not_lost_in_another(table):
    first, other = table(
        "task,id,metric,value\nsums,a,match,1\nsums,b,match,\nclaims,a,length,3\nclaims,b,length,4\n"
    ).results

    assert [(row.scores, set(row.lost)) for row in first.rows] == [({"match": 1}, set()), ({}, {"match"})]
    assert [(row.scores, set(row.lost)) for row in other.rows] == [({"length": 3}, set()), ({"length": 4}, set())]


def test_a_table_of_several_tasks_says_how_to_compare_over_all_of_them(table):
    text = "task,sample,arm,success\n" + "".join(
        f"{task},{task}{k},a,1\n" for task in ("pick", "pour") for k in range(3)
    )
    hint = (
        "results.csv: each task is a test of its own; compare over all of them with --column metadata=task "
        "--metric 'overall(success by task, macro)'"
    )

    assert table(text).notes[-1] == hint
    assert hint not in table(text, metadata="task").notes
    # An id of two tasks would be one sample.
    assert hint not in table(text.replace("pour0", "pick0")).notes
    assert hint not in table("task,sample,arm,success\npick,0,a,1\n").notes
