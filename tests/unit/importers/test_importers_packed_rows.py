"""Packed rows are the rows that were packed: their columns, what is missing in them, and rows with other ids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_crucible.importers.packed_rows import PackedRows, Packing, RowColumns, are_finite, map_rows
from pytest_crucible.importers.results import Row
from pytest_crucible.records import Reply

ROWS = [
    Row(sample="a", scores={"accuracy": 1.0}, reply=Reply(text="yes"), input="A?"),
    Row(
        sample="b",
        scores={"accuracy": None, "style": 0.5},
        lost={"speed": "no clock"},
        reply=Reply(text="no"),
        input="B?",
    ),
    Row(sample="c", repeat=1, group="g", scores={"style": 0.25}, error="timeout", input="C?"),
]


def pack(rows):
    packing = Packing()
    packing.add(rows)
    return PackedRows(packing, lambda: rows)


def without_texts(row):
    return replace(row, reply=None, input=None)


def test_a_packed_row_lacks_only_its_texts():
    columns = RowColumns.of(pack(ROWS))

    assert [columns.row(place) for place in range(len(ROWS))] == [without_texts(row) for row in ROWS]


def test_a_metric_that_a_row_lacks_is_not_one_that_does_not_apply():
    columns = RowColumns.of(pack(ROWS))

    assert columns.values("accuracy") == [1.0, None]
    assert columns.values("style") == [0.5, 0.25]


def test_mapped_rows_have_new_ids_and_their_own_texts():
    mapped = map_rows(pack(ROWS), lambda row: replace(row, sample=f"task/{row.sample}"))

    assert list(mapped) == [replace(row, sample=f"task/{row.sample}") for row in ROWS]
    assert mapped.columns.samples == ["task/a", "task/b", "task/c"]


def test_a_number_beyond_all_floats_is_not_finite():
    assert are_finite([0.5, 1, True])
    assert not are_finite([0.5, 10**400])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"question": "A?"}, {"question": "B?"}),
        ({"question": "A?"}, {"text": "A?"}),
        ({"question": "A?"}, "A?"),
        ("[]", []),
    ],
)
def test_other_inputs_have_other_hashes(first, second):
    hashes = pack([Row(sample="a", input=first), Row(sample="b", input=second)]).hashes.inputs

    assert hashes[0] != hashes[1]


def test_equal_inputs_have_equal_hashes_however_they_were_made():
    text = "".join(["A", "?"])
    hashes = pack([Row(sample="a", input={"x": text, "y": text}), Row(sample="b", input={"y": "A?", "x": "A?"})]).hashes

    assert hashes.inputs[0] == hashes.inputs[1]


@pytest.mark.parametrize("place", [0, 20, 63])
def test_prompts_are_told_apart_by_every_digit_of_their_hash(place):
    digits = "0123456789abcdef" * 4
    other = f"{digits[:place]}{'1' if digits[place] == '0' else '0'}{digits[place + 1 :]}"
    prompts = pack(
        [Row(sample=text, prompt_sha256=text) for text in (digits, other, f"sha256:{digits}")]
    ).hashes.prompts

    assert len({*prompts}) == 3


def test_a_row_without_a_prompt_has_the_place_of_its_own_among_those_with_one():
    hashes = pack([Row(sample="a", input="A?"), Row(sample="b", input="B?", prompt_sha256="0f" * 32)]).hashes

    assert [prompt != 0 for prompt in hashes.prompts] == [False, True]
