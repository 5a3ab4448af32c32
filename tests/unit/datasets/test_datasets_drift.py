"""Drift between two datasets: kinds of fields, Holm over them, margins, and Adult's reference numbers."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

from pytest_crucible.datasets import checks
from pytest_crucible.datasets.checks import check_samples
from pytest_crucible.datasets.checks.check import CheckContext
from pytest_crucible.datasets.checks.columns import MissingColumn
from pytest_crucible.datasets.drift import compare_datasets, load_rows_of_file
from pytest_crucible.datasets.drift.view import drift_view
from pytest_crucible.records import Sample

ADULT = Path(os.environ.get("CRUCIBLE_DATA", "")) / "fairness" / "adult_train.csv.gz"


def rows(seed: int, *, weights=(5, 3, 2), shift: float = 0.0, words="red green blue black white") -> list[Sample]:
    draw = random.Random(seed)
    return [
        Sample(
            id=f"{seed}-{k}",
            input=" ".join(draw.choices(words.split(), k=8)) + f" {draw.random()}",
            metadata={
                "topic": draw.choices("abc", weights)[0],
                "age": draw.gauss(shift, 1),
                "open": draw.random() < 0.5,
            },
        )
        for k in range(300)
    ]


def test_each_field_is_compared_by_its_kind():
    report = compare_datasets(rows(1), rows(2))

    assert {row.field: row.kind for row in report.rows} == {
        "input": "texts", "age": "numbers", "open": "categories", "topic": "categories",
    }  # fmt: skip
    assert not report.failed


def test_planted_drift_is_found_in_its_field():
    old = rows(1)

    assert [row.field for row in compare_datasets(old, rows(2, weights=(2, 3, 5))).failed] == ["topic"]
    assert [row.field for row in compare_datasets(old, rows(2, shift=0.5)).failed] == ["age"]
    assert [row.field for row in compare_datasets(old, rows(2, words="red green blue")).failed] == ["input"]


def test_the_order_of_rows_changes_nothing():
    old, new = rows(1), rows(2)
    shuffled = random.Random(3).sample(old, len(old)), random.Random(4).sample(new, len(new))

    assert compare_datasets(*shuffled).rows == compare_datasets(old, new).rows


def test_p_values_are_adjusted_over_all_fields():
    [alone] = compare_datasets(rows(1), rows(2), fields=["age"]).rows
    together = next(row for row in compare_datasets(rows(1), rows(2)).rows if row.field == "age")

    assert alone.p_adjusted == alone.drift.p_value
    assert together.p_adjusted >= alone.p_adjusted
    with pytest.raises(MissingColumn, match="did you mean 'age'"):
        compare_datasets(rows(1), rows(2), fields=["agee"])


def test_one_row_of_each_group_is_compared():
    draw = random.Random(7)

    def grouped(first):
        means = [draw.gauss(0, 1) for _ in range(10)]
        return [
            Sample(
                id=f"{first}{k}",
                input="q",
                group=f"g{first + k // 50}",
                metadata={"x": means[k // 50] + draw.gauss(0, 0.1)},
            )
            for k in range(500)
        ]

    report = compare_datasets(grouped(0), grouped(100), fields=["x"])
    shuffled = compare_datasets(
        *(random.Random(1).sample(rows, 500) for rows in (grouped(0), grouped(100))), fields=["x"]
    )

    assert report.rows[0].drift.n == shuffled.rows[0].drift.n == (10, 10)
    assert report.left_out == (490, 490)
    assert not report.failed
    assert "490 of the old rows" in drift_view("a", "b", report).notes[1].text


def test_texts_may_be_compared_by_other_vectors():
    def embed(texts):
        return np.array([[1.0, 0.0] if "red" in text else [0.0, 1.0] for text in texts])

    [row] = compare_datasets(rows(1), rows(2, words="green blue"), fields=["input"], embed=embed).rows

    assert row.drift.p_value < 0.01


def test_mappings_are_compared_key_by_key():
    old = [Sample(id=str(k), input="q", expected={"label": "ab"[k % 2], "score": k}) for k in range(40)]

    assert [row.field for row in compare_datasets(old, old).rows] == ["input", "expected.label", "expected.score"]


@pytest.mark.slow
@pytest.mark.skipif(not ADULT.exists(), reason="needs the Adult data of CRUCIBLE_DATA")
def test_adult_has_no_drift_from_its_first_half_to_the_second(tmp_path):
    text = gzip.decompress(ADULT.read_bytes()).decode()
    table = list(csv.DictReader(io.StringIO(text)))
    halves = []
    for name, part in (("old", table[:16_280]), ("new", table[16_280:])):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({key: _number(value) for key, value in row.items()}) + "\n" for row in part))
        halves.append(load_rows_of_file(path))
    report = compare_datasets(*halves, seed=1)
    occupation = next(row for row in report.rows if row.field == "occupation")

    assert len(report.rows) == 15
    assert occupation.drift.statistic == pytest.approx(26.1495, abs=5e-5)
    assert occupation.drift.p_value == pytest.approx(0.02478, abs=5e-6)
    assert not report.failed
    assert "drift is proven in 0 fields of 15" in drift_view("old", "new", report).notes[0].text


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text.strip()


def write(path: Path, samples: list[Sample]) -> None:
    path.write_text("".join(json.dumps({"id": s.id, "input": s.input, **s.metadata}) + "\n" for s in samples))


def check(tmp_path: Path, *asked: checks.Check):
    return check_samples(rows(2, weights=(2, 3, 5)), asked, context=CheckContext(folder=tmp_path))


def test_the_check_fails_for_proven_drift_and_has_three_states_with_a_margin(tmp_path):
    write(tmp_path / "march.jsonl", rows(1))
    results = check(
        tmp_path,
        checks.expect_no_data_drift("topic", baseline="march.jsonl"),
        checks.expect_no_data_drift("topic", baseline="march.jsonl", margin=0.05),
        checks.expect_no_data_drift("topic", baseline="march.jsonl", margin=0.25),
        checks.expect_no_data_drift("topic", baseline="march.jsonl", margin=0.6),
        checks.expect_no_data_drift("age", baseline="march.jsonl", method="ks"),
        checks.expect_no_data_drift("input", baseline="march.jsonl", margin=0.1),
        checks.expect_no_data_drift("topic", baseline="april.jsonl"),
        checks.expect_no_data_drift("topik", baseline="march.jsonl"),
    )

    assert [result.state for result in results] == [
        "failed", "failed", "warned", "passed", "passed", "failed", "failed", "failed",
    ]  # fmt: skip
    assert results[3].message.startswith("drift proven, within the margin 0.6: the distance is 0.2")
    assert results[5].message == "texts have no distance to compare with a margin; remove margin"
    assert results[6].sentence == (
        'expect_no_data_drift("topic", baseline="april.jsonl"): april.jsonl does not exist; correct baseline='
    )
    assert "did you mean 'topic'?" in results[7].message


def test_drift_checks_of_one_dataset_share_their_error_rate(tmp_path):
    write(tmp_path / "march.jsonl", rows(1))
    asked = checks.expect_no_data_drift("age", baseline="march.jsonl")
    [alone], together = check(tmp_path, asked), check(tmp_path, asked, asked, asked)

    assert alone.message != together[0].message
