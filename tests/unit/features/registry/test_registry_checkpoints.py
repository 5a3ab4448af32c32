"""Checkpoints of a training: the log directory of a tinker-cookbook training, and the runs that judge a watched one."""

from __future__ import annotations

import json

import pytest
from experiment_builders import store_run
from registry_builders import SAMPLES, change_run

from pytest_crucible.features.registry.checkpoints import (
    judging_run,
    label_of,
    read_log_directory,
    read_training_log,
    training_means,
    why_not_judged,
)
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.history import add_tag
from pytest_crucible.store.runs import RunStore


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


@pytest.mark.parametrize(
    ("rows", "end", "numbers"),
    [
        (
            [{"step": 0, "lr": 1e-3, "train_mean_nll": 4.0}, {"step": 1, "train_mean_nll": 2}],
            '{"step": 2, "tr',
            ("train_mean_nll", {0: 4.0, 1: 2.0}),
        ),
        ([{"step": 3, "env/all/reward/total": 0.5, "x": "text"}, {"x": 1}], "", ("env/all/reward/total", {3: 0.5})),
        ([{"step": 0, "loss": float("nan")}, {"step": 1, "loss": 1.0}], "", ("loss", {1: 1.0})),
    ],
    ids=["half a line", "reward", "not a number"],
)
def test_the_loss_or_the_reward_is_found(write, rows, end, numbers):
    assert read_training_log(write(*rows, end=end)) == numbers


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


TAG = "watch/claims/1/c0ffee"


def store_watched_run(store: RunStore, run: str, *lost: int, status: str = "finished") -> None:
    """Store a run of the checkpoint that lost the replies to these samples."""
    values = ["lost" if position in lost else True for position in range(len(SAMPLES))]
    store_run(store, run, SAMPLES, v1=values)
    change_run(store, run, status=status)
    add_tag(store, run, TAG, at="")


def judged_by(store: RunStore) -> str | None:
    run = judging_run(store, TAG)
    return None if run is None else run.id


def test_a_finished_run_that_lost_nothing_judges(store):
    assert why_not_judged(store, TAG, "claims@1") == "the run of claims@1 broke: it is judged again at the next look"
    store_watched_run(store, "broken", status="interrupted")
    assert judged_by(store) is None
    store_watched_run(store, "whole")
    assert judged_by(store) == "whole"


def test_lost_replies_are_awaited_unless_two_runs_in_turn_lost_the_same(store):
    store_watched_run(store, "first", 1, 2)
    assert judged_by(store) is None
    assert why_not_judged(store, TAG, "claims@1") == (
        "run first of claims@1 lost 2 replies: it is judged again at the next look"
    )
    store_watched_run(store, "second", 2)
    assert judged_by(store) is None
    store_watched_run(store, "third", 1, 2)
    assert judged_by(store) is None
    store_watched_run(store, "fourth", 1, 2)
    assert judged_by(store) == "fourth"
