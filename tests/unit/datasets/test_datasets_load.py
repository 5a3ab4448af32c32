"""Files and rows become samples, and each fault of a file is an error that names its place."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import record

from pytest_crucible import DatasetError, Sample
from pytest_crucible.datasets import identify, load_file, load_rows

ROWS = [
    {"id": "a", "input": "2 + 2", "expected": "4", "group": "sums", "level": 1},
    {"id": "b", "input": "3 * 3", "expected": "9", "group": "products"},
]
SAMPLES = [
    Sample(id="a", input="2 + 2", expected="4", group="sums", metadata={"level": 1}),
    Sample(id="b", input="3 * 3", expected="9", group="products"),
]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sums.jsonl"


def complaint(load, *arguments, **options) -> str:
    with pytest.raises(DatasetError) as caught:
        load(*arguments, **options)
    return str(caught.value)


# -- what is read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [LINES.strip(), f"\n  \n{LINES}\n\t\n"], ids=["no-last-newline", "blank-lines"])
def test_a_file_of_json_lines_is_read(path, content):
    path.write_text(content)

    assert load_file(path) == SAMPLES


def test_fields_are_read_under_the_names_of_the_file(path):
    path.write_text('{"key": 7, "question": "2 + 2", "answer": "4", "topic": "sums", "level": 1}\n')
    fields = {"id": "key", "input": "question", "expected": "answer", "group": "topic"}

    assert load_file(path, fields=fields) == [
        Sample(id="7", input="2 + 2", expected="4", group="sums", metadata={"level": 1})
    ]


@pytest.mark.parametrize("name", ["sums.jsonl", "sums.jsonl.gz"])
def test_rows_without_ids_are_named_after_their_lines(tmp_path, name):
    content = b'{"input": 1}\n\n{"input": 2}\n'
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)

    assert [sample.id for sample in load_file(path)] == ["sums-1", "sums-3"]


def test_rows_in_memory_without_ids_are_numbered():
    assert [sample.id for sample in load_rows([{"input": 1}, {"input": 2}], name="sums")] == ["sums-1", "sums-2"]


@pytest.mark.parametrize("given_rows", [ROWS, SAMPLES, iter(ROWS), lambda: ROWS, lambda: iter(SAMPLES)])
def test_rows_may_be_mappings_or_samples_and_come_from_a_function(given_rows):
    assert load_rows(given_rows, name="sums") == SAMPLES


# -- what is refused ----------------------------------------------------------------------------------------------

OBJECTS = "write one JSON object per line"
ROW = '{"input": 1}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", f"dataset {{path!r}} is empty: {OBJECTS}"),
        ("\n \n", f"dataset {{path!r}} is empty: {OBJECTS}"),
        (ROW + '\n{"input": \n',
         f"line 3 of {{path}} is not JSON (Expecting value: line 2 column 1 (char 11)): {OBJECTS}"),
        *(
            (ROW + '{"input": 1, ' + row.format(constant) + "}\n",
             f"line 2 of {{path}} is not JSON ({constant} is not a JSON number; write null where there is no value): {OBJECTS}")
            for constant in ("NaN", "Infinity", "-Infinity")
            for row in ('"expected": {}', '"seconds": [{}]')
        ),
        ("[" * 100_000, "line 1 of {path} is nested more than 100 levels deep: flatten its values"),
        (ROW + "[1, 2]", "line 2 of {path} is an array: write one object per line"),
        (ROW + '"x"', "line 2 of {path} is a string: write one object per line"),
        (ROW + "null", "line 2 of {path} is null: write one object per line"),
        ((ROW * 500).encode() + '{"input": "naïve"}\n'.encode("latin-1"),
         "line 501 of {path} is not UTF-8 (invalid continuation byte): save the file as UTF-8"),
        ('{"question": "2 + 2", "answer": 4}',
         "line 1 of {path} has no 'input' (it has 'question', 'answer'): name the field with fields={{'input': 'question'}}"),
        (ROW + '\n{"input": null}', "line 3 of {path} has no value for 'input' (null): write one, or remove the line"),
        *(
            (f"{json.dumps({'input': 1, **has})}\n{json.dumps(lacks)}\n",
             f"line 2 of {{path}} has no {name!r} but others have one: give it to all samples or to none")
            for name, has in (("id", {"id": "a"}), ("group", {"group": "sums"}))
            for lacks in ({"input": 2}, {"input": 2, "id": None, "group": None})
        ),
        *(
            (json.dumps({"id": "1", "group": "g", "input": 1, name: "a\ud83d"}),
             "line 1 of {path} has the id or group 'a\\ud83d', which contains half of a character: correct it")
            for name in ("id", "group")
        ),
        *(
            ('{"id": "1", "input": 1}\n{"id": "2", "input": 1}\n{"id": ' + again + ', "input": 1}',
             "line 3 of {path} repeats the id '1' of line 1 of {path}: ids must be unique")
            for again in ('"1"', "1")
        ),
    ],
)  # fmt: skip
def test_a_wrong_file_is_an_error_that_names_the_line(path, content, message):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    assert complaint(load_file, path) == message.format(path=str(path))


@pytest.mark.parametrize(
    ("rows", "fields", "message"),
    [
        ([{"input": 1, "expected": math.nan}], {},
         "sample 1 of sums has NaN for 'expected': write null where no value is expected"),
        ([Sample(id="a", input=1, expected=math.nan)], {},
         "sample 1 of sums has NaN for 'expected': write null where no value is expected"),
        ([Sample(id="a", input=None)], {}, "sample 1 of sums has no value for 'input' (null): write one, or remove the sample"),
        ([{"question": None}], {"input": "question"},
         "sample 1 of sums has no value for 'question' (null): write one, or remove the sample"),
        ([{}], {}, "sample 1 of sums has no 'input' (it has nothing): name the field with fields={'input': ...}"),
        ([{"input": 1}], {"input": "question"},
         "sample 1 of sums has no 'question' (it has 'input'): name the field with fields={'input': ...}"),
        ([{"input": 1}], {"target": "answer"},
         "fields={'target': 'answer'} maps ['target']: the names are id, input, expected, group"),
        ([SAMPLES[0], {"input": 2, "group": "sums"}], {},
         "sample 2 of sums has no 'id' but others have one: give it to all samples or to none"),
        ([Sample(id=7, input="x")], {}, "sample 1 of sums has the id 7: an id is a text that is not empty, such as 'q1'"),
        ([{"id": "", "input": 1}], {}, "sample 1 of sums has the id '': an id is a text that is not empty, such as 'q1'"),
        ([{"id": " ", "input": 1}], {}, "sample 1 of sums has the id ' ': an id is a text that is not empty, such as 'q1'"),
        ([{"id": {"a": 1}, "input": 1}], {},
         "sample 1 of sums has the id {'a': 1}: an id is a text or a number, such as 'q1'"),
        ([{"id": [1], "input": 1}], {}, "sample 1 of sums has the id [1]: an id is a text or a number, such as 'q1'"),
        (["2 + 2"], {}, "sample 1 of sums is a string: a sample is a mapping with 'id' and 'input', or a Sample"),
        ([], {}, "dataset 'sums' is empty: an experiment needs at least one sample"),
        (list, {}, "dataset 'sums' is empty: an experiment needs at least one sample"),
    ],
)  # fmt: skip
def test_wrong_rows_are_an_error_that_names_the_sample(rows, fields, message):
    assert complaint(load_rows, rows, name="sums", fields=fields) == message


def test_a_missing_file_is_an_error(path):
    assert complaint(load_file, path) == (
        f"dataset {str(path)!r} does not exist: give the path of a file (.jsonl, .json, .csv, .tsv, .parquet), "
        "or a dataset's name"
    )


def damage(content: bytes) -> bytes:
    packed = bytearray(gzip.compress(content * 5000))
    packed[20:23] = b"\xff\x00\x07"
    return bytes(packed)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            gzip.compress(LINES.encode(), mtime=0)[:-12],
            "Compressed file ended before the end-of-stream marker was reached",
        ),
        (damage(b'{"input": 1}\n'), "Error -3 while decompressing data"),
        (LINES.encode(), "Not a gzipped file (b'{\"')"),
    ],
)
def test_a_truncated_damaged_or_plain_gz_file_is_an_error(tmp_path, content, reason):
    path = tmp_path / "sums.jsonl.gz"
    path.write_bytes(content)

    assert complaint(load_file, path).startswith(f"{path} cannot be read: {reason}")


def test_empty_texts_and_the_text_nan_are_kept(path):
    path.write_text('{"input": "NaN", "expected": "Infinity"}\n')
    [sample] = load_file(path)

    assert (sample.input, sample.expected) == ("NaN", "Infinity")
    assert load_rows([{"input": ""}], name="sums")[0].input == ""


# -- identity -----------------------------------------------------------------------------------------------------


@given(st.lists(record(Sample), max_size=3))
def test_equal_rows_have_one_hash_under_any_name(samples):
    first, other = identify("one", samples), identify("other", iter(list(samples)))

    assert first.sha256 == other.sha256
    assert first.samples == tuple(samples)


@pytest.mark.parametrize(
    "changed",
    [
        [SAMPLES[1], SAMPLES[0]],
        SAMPLES[:1],
        [Sample(id="c", input="2 + 2", expected="4", group="sums", metadata={"level": 1}), SAMPLES[1]],
        [Sample(id="a", input="2 - 2", expected="4", group="sums", metadata={"level": 1}), SAMPLES[1]],
        [Sample(id="a", input="2 + 2", expected=4, group="sums", metadata={"level": 1}), SAMPLES[1]],
        [Sample(id="a", input="2 + 2", expected="4", group=None, metadata={"level": 1}), SAMPLES[1]],
        [Sample(id="a", input="2 + 2", expected="4", group="sums", metadata={"level": 2}), SAMPLES[1]],
    ],
    ids=["order", "number", "id", "input", "expected", "group", "metadata"],
)
def test_any_difference_in_the_rows_changes_the_hash(changed):
    assert identify("sums", changed).sha256 != identify("sums", SAMPLES).sha256


def test_the_order_of_keys_does_not_change_the_hash():
    first, other = ({"x": 1, "y": 2}, {"y": 2, "x": 1})

    assert (
        identify("sums", [Sample(id="a", input=first)]).sha256 == identify("sums", [Sample(id="a", input=other)]).sha256
    )
