"""Tables of Ragas: inputs name the samples, and a metric that failed is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_crucible.importers.formats import read
from pytest_crucible.records.errors import SpecError

FILES = Path(__file__).parents[2] / "data" / "imports"


@pytest.fixture
def table(tmp_path):
    def write(*rows: dict):
        path = tmp_path / "v2.json"
        path.write_text(json.dumps(rows))
        return read(path)

    return write


def test_a_row_is_a_sample_with_its_scores():
    row = read(FILES / "ragas-v2.jsonl").results[0].rows[0]

    assert (row.sample, row.expected, row.reply.text) == ("What is 1 + 1?", "2", "a thousand")
    assert row.scores == {"exact_match": 0.0, "non_llm_string_similarity": 0.0, "brevity": 0.0}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_metric_that_failed_is_lost_in_every_format(ending):
    rows, others = (read(FILES / f"ragas-v2.{form}").results[0].rows for form in ("jsonl", ending))

    assert rows[-1].lost == {"brevity": "the metric gave no value"}
    assert [(row.sample, row.scores, row.lost) for row in rows] == [
        (row.sample, row.scores, row.lost) for row in others
    ]


def test_only_metrics_of_ragas_itself_have_a_direction(table):
    row = {
        "user_input": "q",
        "response": "r",
        "factual_correctness(mode=f1)": 0.5,
        "noise_sensitivity(mode=relevant)": 0.1,
    }
    facts = table({**row, "politeness": 3}).results[0].facts

    assert {name: one.direction for name, one in facts.items()} == {
        "factual_correctness_mode_f1": "higher",
        "noise_sensitivity_mode_relevant": "lower",
    }


def test_an_input_that_recurs_is_a_repeat_unless_its_reference_differs(table):
    rows = [("q", "a"), ("p", "a"), ("q", "a"), ("p", "b"), ("p", "a"), ("p", "b")]
    results = table(*({"user_input": q, "reference": a, "exact_match": 1.0} for q, a in rows)).results[0]

    assert [(row.sample, row.repeat) for row in results.rows] == [
        ("q", 0),
        ('["p","a"]', 0),
        ("q", 1),
        ('["p","b"]', 0),
        ('["p","a"]', 1),
        ('["p","b"]', 1),
    ]
    assert results.repeats == 2


def test_conversations_are_named_by_their_messages(table):
    said = [{"content": "hello", "type": "human"}]

    assert table({"user_input": said, "reference": "x", "m": 1}).results[0].rows[0].sample == json.dumps(
        said, separators=(",", ":")
    )


def test_another_table_with_a_user_s_input_is_not_ragas_own(table):
    assert table({"user_input": "q", "response": "r", "id": "a", "score": 1.0}).harness == "table"


def test_a_dataset_without_scores_is_one_sentence(table):
    with pytest.raises(SpecError, match="has samples but no scores: write the table that"):
        table({"user_input": "q", "response": "r"})
