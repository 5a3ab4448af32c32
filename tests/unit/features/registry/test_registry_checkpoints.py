"""The log directory of a tinker-cookbook training: its checkpoints and its own numbers."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.features.registry.checkpoints import (
    label_of,
    mean_since,
    read_log_directory,
    read_training_log,
    training_means,
)
from pytest_crucible.records.errors import SpecError


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


@pytest.fixture
def write(tmp_path):
    def write(*rows, end=""):
        (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows) + end)
        return tmp_path

    return write


def test_the_loss_is_found_and_a_half_written_line_left_out(write):
    folder = write(
        {"step": 0, "lr": 1e-3, "train_mean_nll": 4.0}, {"step": 1, "train_mean_nll": 2}, end='{"step": 2, "tr'
    )

    assert read_training_log(folder) == ("train_mean_nll", {0: 4.0, 1: 2.0})


def test_the_reward_of_rl(write):
    assert read_training_log(write({"step": 3, "env/all/reward/total": 0.5, "x": "text"}, {"x": 1})) == (
        "env/all/reward/total",
        {3: 0.5},
    )


def test_a_key_of_ones_own(write):
    folder = write({"step": 0, "lr": 0.1, "loss": 2})

    assert read_training_log(folder, "lr") == ("lr", {0: 0.1})
    with pytest.raises(SpecError, match=r"--training los: .*has no such number: did you mean 'loss'\?"):
        read_training_log(folder, "los")


def test_without_the_file_there_is_no_number(tmp_path):
    assert read_training_log(tmp_path) == ("", {})
    with pytest.raises(SpecError, match="the training has written no numbers"):
        read_training_log(tmp_path, "loss")


def test_a_line_that_is_not_json(write):
    with pytest.raises(SpecError, match="line 1 is not JSON"):
        read_training_log(write(end="oops\n"))


def test_not_a_number_is_left_out(write):
    assert read_training_log(write({"step": 0, "loss": float("nan")}, {"step": 1, "loss": 1.0})) == ("loss", {1: 1.0})


def test_the_mean_since_a_checkpoint():
    assert mean_since({4: 1.0, 5: 2.0, 6: 4.0, 10: 9.0}, 5, 10) == 3.0
    assert mean_since({4: 1.0}, 5, 10) is None
