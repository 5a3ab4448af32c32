"""The log directory of a tinker-cookbook training."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.records.errors import SpecError
from pytest_crucible.registry.curve import label_of, read_log_directory, training_means


def row(name: str, batch: int | None, path: str | None) -> str:
    row = {"name": name, "batch": batch, "state_path": "tinker://r/weights/x"}
    return json.dumps(row if path is None else {**row, "sampler_path": f"tinker://r/sampler_weights/{path}"}) + "\n"


def test_checkpoints_come_in_the_order_of_the_training(tmp_path):
    lines = [row("000010", 10, "a"), row("state", 15, None), row("000020", 20, "b"), row("last", None, "c")]
    (tmp_path / "checkpoints.jsonl").write_text("".join(lines) + '{"name": "0000')

    checkpoints = read_log_directory(tmp_path)
    assert [label_of(checkpoint) for checkpoint in checkpoints] == ["10", "20", "last"]
    assert [checkpoint.adapter[-1] for checkpoint in checkpoints] == ["a", "b", "c"]
    assert training_means(checkpoints, {9: 3.0, 10: 1.0, 19: 2.0, 20: 9.0}) == {"10": 3.0, "20": 1.5, "last": None}


def test_a_step_that_a_resumed_training_wrote_again_is_the_later_one(tmp_path):
    (tmp_path / "checkpoints.jsonl").write_text(row("000010", 10, "old") + row("000010", 10, "new"))

    (checkpoint,) = read_log_directory(tmp_path)
    assert checkpoint.adapter.endswith("/new")


def test_a_directory_without_checkpoints(tmp_path):
    with pytest.raises(SpecError, match=r"has no checkpoints.jsonl: name the log_path"):
        read_log_directory(tmp_path)
    with pytest.raises(SpecError, match="nowhere is not a directory"):
        read_log_directory(tmp_path / "nowhere")
    (tmp_path / "checkpoints.jsonl").write_text(row("state", 15, None))
    with pytest.raises(SpecError, match="names no weights to sample from: train with save_every=N"):
        read_log_directory(tmp_path)
