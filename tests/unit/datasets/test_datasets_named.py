"""The official datasets, read from their own files: every row, and what is said of a file that is not theirs."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from pytest_crucible import DatasetError, Reply, Sample
from pytest_crucible.builtin import DATASETS, find_release
from pytest_crucible.datasets import benchmarks, load_rows
from pytest_crucible.metrics.choice import choice_match
from pytest_crucible.metrics.numbers import final_number_matches

DATA = os.environ.get("CRUCIBLE_DATA", "")
needs_data = pytest.mark.skipif(
    not DATA, reason="CRUCIBLE_DATA is not set: it names a directory with the official files"
)
HERE = ("abstract_algebra", "anatomy", "college_computer_science", "computer_security", "formal_logic", "global_facts",
        "high_school_statistics", "machine_learning", "us_foreign_policy", "world_religions")  # fmt: skip


def loaded(name: str) -> list[Sample]:
    found = find_release(name)
    assert found is not None
    return list(load_rows(found, name=name))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data directory."""
    monkeypatch.setenv("CRUCIBLE_DATA", str(tmp_path))
    return tmp_path


@needs_data
@pytest.mark.parametrize("name", ["gsm8k", "humaneval", "scifact-dev", "scifact-train"])
def test_a_dataset_has_as_many_samples_as_it_says_and_is_the_official_one(name):
    found = find_release(name)

    assert len(loaded(name)) == found.samples
    assert found.origin().official is True


@needs_data
def test_the_published_judgements_of_gsm8k_are_found_again():
    expected = {sample.input: sample for sample in loaded("gsm8k")}
    agreed = judged = 0
    with gzip.open(Path(DATA) / "gsm8k" / "example_model_solutions.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            sample = expected[row["question"]]
            for given in (one for one in row.values() if isinstance(one, dict)):
                judged += 1
                agreed += final_number_matches(Reply(text=given["solution"]), sample) is given["is_correct"]

    assert (agreed, judged) == (5276, 5276)


@needs_data
def test_every_row_of_mmlu_is_a_question():
    samples = [sample for subject in HERE for sample in loaded(f"mmlu:{subject}")]

    assert len(samples) == 1260
    assert len({sample.id for sample in samples}) == 1260
    assert all(choice_match(Reply(text=f"Answer: {one.expected}"), one) for one in samples)
    assert all(len(one.metadata["choices"]) == 4 for one in samples)
    assert [len(loaded(f"mmlu-dev:{subject}")) for subject in HERE] == [5] * 10


@needs_data
def test_fever_loads(data):
    (data / "fever").mkdir()
    shutil.copy(Path(DATA) / "fever" / "paper_dev_first1000.jsonl", data / "fever" / "paper_dev.jsonl")
    samples = loaded("fever")

    assert len(samples) == 1000
    assert Counter(sample.expected for sample in samples) == {"REFUTES": 339, "SUPPORTS": 331, "NOT ENOUGH INFO": 330}
    assert all(sample.metadata["evidence"] for sample in samples if sample.expected != "NOT ENOUGH INFO")
    assert find_release("fever").origin().official is False  # these are its first lines


def test_the_origin_has_the_checksum_of_what_was_read(data):
    (data / "gsm8k").mkdir()
    content = b'{"question": "1 + 1?", "answer": "#### 2"}\n'
    (data / "gsm8k" / "test.jsonl.gz").write_bytes(gzip.compress(content))
    origin = find_release("gsm8k").origin()

    assert origin.files == {"gsm8k/test.jsonl": hashlib.sha256(content).hexdigest()}
    assert origin.official is False
    assert origin.licence == "MIT"


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ('{"id": 1, "claim": "c", "label": "MAYBE", "evidence": []}', "has the label 'MAYBE'"),
        ('{"id": 1, "label": "REFUTES", "evidence": []}', "has no 'claim'"),
    ],
)
def test_a_wrong_row_of_fever(data, row, complaint):
    (data / "fever").mkdir()
    (data / "fever" / "paper_dev.jsonl").write_text(row)

    with pytest.raises(DatasetError, match=rf"line 1 of .*paper_dev.jsonl {complaint}"):
        loaded("fever")


@pytest.mark.parametrize("row", ["q,1,2,3,A", "q,1,2,3,4,E", "q,1,2,3,4,5,A"])
def test_a_wrong_row_of_mmlu(data, row):
    (data / "mmlu" / "test").mkdir(parents=True)
    (data / "mmlu" / "test" / "virology_test.csv").write_text(f'"a ""b"", c",1,2,3,4,D\n{row}\n')

    with pytest.raises(DatasetError, match=r"line 2 of .*virology_test.csv is not an MMLU question"):
        loaded("mmlu:virology")


def test_a_misspelt_subject():
    with pytest.raises(DatasetError, match=r"MMLU has no subject .astro.: did you mean .astronomy.\?"):
        find_release("mmlu:astro")


def test_a_file_with_a_colon_in_its_name_is_no_dataset():
    assert find_release("gsm8k:algebra") is None
    assert find_release("humaneval:x") is None
    assert find_release("sums.jsonl") is None


def test_all_subjects_of_mmlu_have_their_file():
    assert len(benchmarks.SUBJECTS) == 57
    assert len(find_release("mmlu").files) == 57


def test_every_dataset_says_what_it_is():
    for name in DATASETS:
        found = find_release(name)
        assert found.name == name
        assert found.says
        assert found.licence
        assert found.source.startswith("https://")
        assert all(len(file.sha256) == 64 for file in found.files)
