"""Drift between two datasets: kinds of fields, Holm over them, margins, and Adult's reference numbers."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_crucible.datasets import checks
from pytest_crucible.datasets.check import CheckContext
from pytest_crucible.datasets.checks import check_samples
from pytest_crucible.datasets.columns import MissingColumn
from pytest_crucible.features.contamination.drift import compare_datasets, load_rows_of_file
from pytest_crucible.features.contamination.section import drift_view
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

    def make_groups(first):
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

    report = compare_datasets(make_groups(0), make_groups(100), fields=["x"])
    shuffled = compare_datasets(
        *(random.Random(1).sample(rows, 500) for rows in (make_groups(0), make_groups(100))), fields=["x"]
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


def check(tmp_path: Path, *requested: checks.Check):
    return check_samples(rows(2, weights=(2, 3, 5)), requested, context=CheckContext(folder=tmp_path))


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
    requested = checks.expect_no_data_drift("age", baseline="march.jsonl")
    [alone], together = check(tmp_path, requested), check(tmp_path, requested, requested, requested)

    assert alone.message != together[0].message


def with_field(values, name="x") -> list[Sample]:
    return [
        Sample(id=f"{k}", input="q", metadata={} if value is None else {name: value}) for k, value in enumerate(values)
    ]


def partly_missing(share: float, kind: str, n: int = 400) -> list[Sample]:
    draw = random.Random(kind)
    value = {
        "numbers": lambda: draw.gauss(0, 1),
        "codes": lambda: draw.randint(0, 1),
        "categories": lambda: draw.choice("abc"),
        "texts": lambda: f"word{draw.randint(0, 9)} {draw.random()}",
    }[kind]
    return with_field([None if k < share * n else value() for k in range(n)])


KINDS = ["numbers", "codes", "categories", "texts"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("absent", [None, float("nan")])
def test_missing_values_are_compared(kind, absent):
    """The values that are there do not differ, so that comparing them alone passed."""
    old, new = (
        [replace(sample, metadata={"x": sample.metadata.get("x", absent)}) for sample in partly_missing(share, kind)]
        for share in (0.05, 0.6)
    )
    [plain], [margin], [wide] = (
        compare_datasets(old, new, fields=["x"], margin=margin).rows for margin in (None, 0.2, 0.8)
    )

    assert plain.fails(0.05)
    assert (margin.state, margin.fails(0.05)) == ("missed", True)
    assert not wide.fails(0.05)
    assert margin.missing_drift.distance == pytest.approx(0.55)
    assert not compare_datasets(old, old, fields=["x"]).failed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_gone", [True, False])
def test_a_field_that_one_dataset_lacks_is_missing_in_all_rows_of_the_other(kind, is_gone):
    some, none = partly_missing(0.4, kind), partly_missing(1, kind)
    report = compare_datasets(*((some, none) if is_gone else (none, some)))

    assert [row.field for row in report.failed] == ["x"]
    assert (report.only_old, report.only_new) == ((("x",), ()) if is_gone else ((), ("x",)))


def test_one_value_in_a_thousand_is_not_drift():
    assert not compare_datasets(with_field([1] + [None] * 999), with_field([None] * 1000)).failed


def test_numbers_of_few_values_are_categories():
    """A code that means something else: the distribution functions hardly differ."""
    old, new = with_field([0] * 450 + [1] * 50), with_field([0] * 415 + [1] * 85)
    [row] = compare_datasets(old, new, fields=["x"]).rows

    assert (row.kind, row.drift.test) == ("categories", "chi-squared")
    assert row.drift.p_value == pytest.approx(0.0012, abs=0.0003)
    assert compare_datasets(old, new, fields=["x"], kinds={"x": "numbers"}).rows[0].drift.p_value < 0.005


def test_new_values_are_compared_and_named():
    old, new = with_field(["a", "b"] * 100), with_field(["a", "b"] * 85 + ["c"] * 20 + ["d", "e", "f"] * 3 + ["g"])
    [row] = compare_datasets(old, new, fields=["x"]).rows

    assert row.fails(0.05)
    assert row.note == "5 new values: c (20), d (3), e (3) and 2 more"


@pytest.mark.parametrize("value", [7, 7.5, "a", True])
def test_a_constant_field_has_not_drifted(value, tmp_path):
    old = with_field([value] * 200)
    (tmp_path / "old.jsonl").write_text("".join(json.dumps({"input": "q", "x": value}) + "\n" for _ in old))
    requested = [checks.expect_no_data_drift("x", baseline="old.jsonl", margin=margin) for margin in (None, 0.2)]

    assert not compare_datasets(old, old).failed
    results = check_samples(old, requested, context=CheckContext(folder=tmp_path))
    assert [result.state for result in results] == ["passed", "passed"]


def test_the_check_counts_missing_values(tmp_path):
    write(tmp_path / "old.jsonl", partly_missing(0.05, "numbers"))
    requested = [checks.expect_no_data_drift("x", baseline="old.jsonl", margin=margin) for margin in (None, 0.2)]
    results = check_samples(partly_missing(0.6, "numbers"), requested, context=CheckContext(folder=tmp_path))

    assert [result.state for result in results] == ["failed", "failed"]
    assert "5 % and 60 % of the values are missing (the distance is 0.55, at least 0.4" in results[1].message
    assert "beyond the margin 0.2 (p <1e-15 for values and missing ones together)" in results[1].message
    assert "of the values: the distance is" in results[1].message


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_without_drift_rarely_show_any(kind):
    draw = random.Random(5)

    def half(n):
        rows = partly_missing(0, kind, n)
        draw.shuffle(rows)
        return [replace(row, metadata={}) if draw.random() < 0.2 else row for row in rows]

    pool = [row for _ in range(5) for row in half(400)]
    failures = sum(
        bool(compare_datasets(draw.sample(pool, 150), draw.sample(pool, 150), fields=["x"]).failed) for _ in range(200)
    )
    assert failures <= 10 + 3 * 3.1
