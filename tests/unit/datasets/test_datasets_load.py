"""From files and rows to samples, and every way in which a file can be wrong."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import is_given, names, plain_values, record

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


@pytest.mark.parametrize(
    "content",
    [
        LINES.encode(),
        LINES.strip().encode(),
        b"\xef\xbb\xbf" + LINES.encode(),
        LINES.replace("\n", "\r\n").encode(),
        f"\n  \n{LINES}\n\t\n".encode(),
    ],
    ids=["plain", "no-last-newline", "bom", "crlf", "blank-lines"],
)
def test_a_file_of_json_lines_is_read(path, content):
    path.write_bytes(content)

    assert load_file(path) == SAMPLES


def test_a_gzipped_file_is_unpacked(tmp_path):
    path = tmp_path / "sums.jsonl.gz"
    path.write_bytes(gzip.compress(LINES.encode()))

    assert load_file(path) == SAMPLES


def test_text_that_is_not_ascii_is_kept(path):
    path.write_text('{"input": "Ωmega \u2028 line"}\n', encoding="utf-8")

    assert load_file(path)[0].input == "Ωmega \u2028 line"


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


@given(st.lists(names, min_size=1, unique=True), plain_values.filter(is_given))
def test_written_samples_are_read_back(tmp_path_factory, ids, value):
    path = tmp_path_factory.getbasetemp() / "written.jsonl"
    path.write_text("".join(f"{json.dumps({'id': one, 'input': value})}\n" for one in ids), encoding="utf-8")

    assert load_file(path) == [Sample(id=one, input=value) for one in ids]


# -- what is refused ----------------------------------------------------------------------------------------------


def test_a_missing_file_is_an_error(path):
    assert complaint(load_file, path) == (
        f"dataset {str(path)!r} does not exist: give the path of a file (.jsonl, .json, .csv, .tsv, .parquet), "
        "or a dataset's name"
    )


@pytest.mark.parametrize("content", ["", "\n \n"], ids=["no-bytes", "blank-lines"])
def test_an_empty_file_is_an_error(path, content):
    path.write_text(content)

    assert complaint(load_file, path) == f"dataset {str(path)!r} is empty: write one JSON object per line"


def test_a_line_that_is_not_json_is_an_error(path):
    path.write_text('{"input": 1}\n\n{"input": \n')

    assert complaint(load_file, path) == (
        f"line 3 of {path} is not JSON (Expecting value: line 2 column 1 (char 11)): write one JSON object per line"
    )


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("row", ['"expected": {}', '"seconds": [{}]'])
def test_nan_and_infinity_are_not_json(path, constant, row):
    path.write_text('{"input": 1, "expected": 2}\n{"input": 1, ' + row.format(constant) + "}\n")

    assert complaint(load_file, path) == (
        f"line 2 of {path} is not JSON ({constant} is not a JSON number; write null where there is no value): "
        "write one JSON object per line"
    )


@pytest.mark.parametrize("row", [{"input": 1, "expected": math.nan}, Sample(id="a", input=1, expected=math.nan)])
def test_an_expected_nan_is_an_error(row):
    assert complaint(load_rows, [row], name="rows") == (
        "sample 1 of rows has NaN for 'expected': write null where no value is expected"
    )


def test_the_text_nan_is_kept(path):
    path.write_text('{"input": "NaN", "expected": "Infinity"}\n')

    [sample] = load_file(path)

    assert (sample.input, sample.expected) == ("NaN", "Infinity")


def test_a_line_nested_deeper_than_python_reads_is_named(path):
    path.write_text("[" * 100_000)

    assert complaint(load_file, path).startswith(f"line 1 of {path} is nested more than 100 levels deep: flatten")


@pytest.mark.parametrize(("text", "kind"), [("[1, 2]", "an array"), ('"x"', "a string"), ("null", "null")])
def test_a_line_that_is_not_an_object_is_an_error(path, text, kind):
    path.write_text(f'{{"input": 1}}\n{text}\n')

    assert complaint(load_file, path) == f"line 2 of {path} is {kind}: write one object per line"


def test_a_line_in_another_encoding_is_named(path):
    path.write_bytes(b'{"input": 1}\n' * 500 + '{"input": "naïve"}\n'.encode("latin-1"))

    assert complaint(load_file, path) == (
        f"line 501 of {path} is not UTF-8 (invalid continuation byte): save the file as UTF-8"
    )


def test_a_truncated_gzip_file_is_an_error(tmp_path):
    path = tmp_path / "sums.jsonl.gz"
    path.write_bytes(gzip.compress(LINES.encode())[:-12])

    assert complaint(load_file, path) == (
        f"{path} cannot be read: Compressed file ended before the end-of-stream marker was reached"
    )


def test_a_damaged_gzip_file_is_an_error(tmp_path):
    path = tmp_path / "sums.jsonl.gz"
    packed = bytearray(gzip.compress(b'{"input": 1}\n' * 5000))
    packed[20:23] = b"\xff\x00\x07"
    path.write_bytes(bytes(packed))

    assert complaint(load_file, path).startswith(f"{path} cannot be read: Error -3 while decompressing data")


def test_a_plain_file_named_gz_is_an_error(tmp_path):
    path = tmp_path / "sums.jsonl.gz"
    path.write_text(LINES)

    assert complaint(load_file, path) == f"{path} cannot be read: Not a gzipped file (b'{{\"')"


def test_a_row_without_input_is_an_error_that_names_its_fields(path):
    path.write_text('{"question": "2 + 2", "answer": 4}\n')

    assert complaint(load_file, path) == (
        f"line 1 of {path} has no 'input' (it has 'question', 'answer'): name the field with fields={{'input': 'question'}}"
    )


@pytest.mark.parametrize("name", ["input", "question"])
def test_a_null_input_is_an_error(path, name):
    path.write_text(f'{{"{name}": 1}}\n\n{{"{name}": null}}\n')

    assert complaint(load_file, path, fields={"input": name}) == (
        f"line 3 of {path} has no value for {name!r} (null): write one, or remove the line"
    )


def test_a_sample_without_an_input_is_an_error():
    assert complaint(load_rows, [Sample(id="a", input=None)], name="sums") == (
        "sample 1 of sums has no value for 'input' (null): write one, or remove the sample"
    )


def test_an_empty_text_is_an_input():
    assert load_rows([{"input": ""}], name="sums")[0].input == ""


def test_an_empty_row_is_an_error():
    assert complaint(load_rows, [{}], name="sums") == (
        "sample 1 of sums has no 'input' (it has nothing): name the field with fields={'input': ...}"
    )


def test_a_field_under_a_missing_name_is_an_error():
    assert complaint(load_rows, [{"input": 1}], name="sums", fields={"input": "question"}) == (
        "sample 1 of sums has no 'question' (it has 'input'): name the field with fields={'input': ...}"
    )


def test_an_unknown_field_of_samples_is_an_error():
    assert complaint(load_rows, [{"input": 1}], name="sums", fields={"target": "answer"}) == (
        "fields={'target': 'answer'} maps ['target']: the names are id, input, expected, group"
    )


@pytest.mark.parametrize(("field", "given_value"), [("id", "a"), ("group", "sums")])
@pytest.mark.parametrize("absent", [{"input": 2}, {"input": 2, "id": None, "group": None}], ids=["absent", "null"])
def test_an_id_or_group_that_only_some_rows_have_is_an_error(path, field, given_value, absent):
    path.write_text(f"{json.dumps({'input': 1, field: given_value})}\n{json.dumps(absent)}\n")

    assert complaint(load_file, path) == (
        f"line 2 of {path} has no {field!r} but others have one: give it to all samples or to none"
    )


def test_samples_beside_rows_without_ids_are_an_error():
    assert complaint(load_rows, [SAMPLES[0], {"input": 2, "group": "sums"}], name="sums") == (
        "sample 2 of sums has no 'id' but others have one: give it to all samples or to none"
    )


@pytest.mark.parametrize("field", ["id", "group"])
def test_a_name_with_a_lone_surrogate_is_an_error(path, field):
    path.write_text(json.dumps({"id": "1", "group": "g", "input": 1, field: "a\ud83d"}))

    assert complaint(load_file, path) == (
        f"line 1 of {path} has the id or group 'a\\ud83d', which contains half of a character: correct it"
    )


@pytest.mark.parametrize("name", ['""', '" "', '{"a": 1}', "[1]"])
def test_a_blank_id_is_an_error(path, name):
    path.write_text(f'{{"id": "1", "input": 1}}\n{{"id": {name}, "input": 1}}\n')

    assert complaint(load_file, path).startswith(f"line 2 of {path} has the id {json.loads(name)!r}: an id is a text ")


def test_an_id_that_is_not_a_text_is_an_error():
    assert complaint(load_rows, [Sample(id=7, input="x")], name="rows").startswith(
        "sample 1 of rows has the id 7: an id is"
    )


@pytest.mark.parametrize("again", ["1", 1], ids=["text", "number"])
def test_a_repeated_id_is_an_error(path, again):
    path.write_text(
        f'{{"id": "1", "input": 1}}\n{{"id": "2", "input": 1}}\n{{"id": {json.dumps(again)}, "input": 1}}\n'
    )

    assert complaint(load_file, path) == (
        f"line 3 of {path} repeats the id '1' of line 1 of {path}: ids must be unique"
    )


def test_a_row_that_is_not_a_mapping_is_an_error():
    assert complaint(load_rows, ["2 + 2"], name="sums") == (
        "sample 1 of sums is a string: a sample is a mapping with 'id' and 'input', or a Sample"
    )


@pytest.mark.parametrize("nothing", [[], list], ids=["list", "function"])
def test_a_dataset_without_rows_is_an_error(nothing):
    assert complaint(load_rows, nothing, name="sums") == (
        "dataset 'sums' is empty: an experiment needs at least one sample"
    )


# -- identity -----------------------------------------------------------------------------------------------------


@given(st.lists(record(Sample), max_size=3))
def test_equal_rows_have_one_hash_under_any_name(samples):
    one, other = identify("one", samples), identify("other", iter(list(samples)))

    assert one.sha256 == other.sha256
    assert one.samples == tuple(samples)


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
    one, other = ({"x": 1, "y": 2}, {"y": 2, "x": 1})

    assert (
        identify("sums", [Sample(id="a", input=one)]).sha256 == identify("sums", [Sample(id="a", input=other)]).sha256
    )
