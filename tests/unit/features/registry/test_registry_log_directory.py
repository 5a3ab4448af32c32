"""The log directory of a tinker-cookbook training: its checkpoints, the batches that they hold, and its own numbers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.registry.log_directory import (
    SavedCheckpoint,
    TrainingLog,
    find_resumptions,
    held_batches,
    read_log_directory,
    read_training_log,
    steps_text,
    training_means,
)
from pytest_crucible.records.errors import SpecError


def row(name: str, batch: int | None, path: str | None) -> str:
    row = {"name": name, "batch": batch, "state_path": "tinker://r/weights/x"}
    return json.dumps(row if path is None else {**row, "sampler_path": f"tinker://r/sampler_weights/{path}"}) + "\n"


def test_checkpoints_come_in_the_order_of_the_training(tmp_path):
    lines = [row("000010", 10, "a"), row("state", 15, None), row("000020", 20, "b"), row("final", 0, "c")]
    (tmp_path / "checkpoints.jsonl").write_text("".join(lines) + '{"name": "0000')

    log = read_log_directory(tmp_path)
    assert [(row.label, row.sampler[-1]) for row in log.samplers] == [("000010", "a"), ("000020", "b"), ("final", "c")]
    # Without steps of the service the names count the batches, and the end has all.
    values = {9: 3.0, 10: 1.0, 19: 2.0, 20: 9.0}
    assert training_means(log, values, {}) == {"000010": 3.0, "000020": 1.5, "final": 9.0}
    assert set(held_batches(log, {}).values()) == {None}


def test_a_step_that_a_resumed_training_wrote_again_is_the_later_one(tmp_path):
    (tmp_path / "checkpoints.jsonl").write_text(row("000010", 10, "old") + row("000010", 10, "new"))

    (checkpoint,) = read_log_directory(tmp_path).samplers
    assert checkpoint.sampler.endswith("/new")


def test_a_directory_without_checkpoints(tmp_path):
    with pytest.raises(SpecError, match=r"has no checkpoints.jsonl: name the log_path"):
        read_log_directory(tmp_path)
    with pytest.raises(SpecError, match="nowhere is not a directory"):
        read_log_directory(tmp_path / "nowhere")
    (tmp_path / "checkpoints.jsonl").write_text(row("state", 15, None))
    assert read_log_directory(tmp_path).samplers == []


def checkpoint(run: str, name: str, batch: int | None) -> SavedCheckpoint:
    return SavedCheckpoint(name, f"tinker://{run}/sampler_weights/{name}", f"tinker://{run}/weights/{name}", batch)


def steps_of(**steps: int | None) -> dict[str, int | None]:
    return {
        f"tinker://{place.partition('_')[0]}/{kind}/{place.partition('_')[2]}": count
        for place, count in steps.items()
        for kind in ("weights", "sampler_weights")
    }


def test_a_training_number_covers_the_batches_that_a_checkpoint_holds():
    log = TrainingLog([checkpoint("r", "000003", 3), checkpoint("r", "000006", 6), checkpoint("r", "final", None)])
    steps = steps_of(r_000003=5, r_000006=8, r_final=9)
    values = {batch: float(batch) for batch in range(9)}

    assert list(held_batches(log, steps).values()) == [5, 8, 9]
    assert training_means(log, values, steps) == {"000003": 2.0, "000006": 6.0, "final": 8.0}


def test_batches_that_a_resumed_training_repeats_count_once():
    log = TrainingLog([checkpoint("r", "000003", 3), checkpoint("s", "000006", 6), checkpoint("s", "final", None)])
    steps = steps_of(r_000003=5, s_000006=10, s_final=10)

    assert list(held_batches(log, steps).values()) == [5, 8, 8]
    assert find_resumptions(log, steps)["s"].source == log.rows[0]
    # A state that does not know its steps leaves those after it unknown.
    assert list(held_batches(log, steps_of(r_000003=None, s_000006=10, s_final=10)).values()) == [None, None, None]


def test_a_training_resumes_from_the_last_state_and_not_from_weights_alone():
    weights = SavedCheckpoint("000004", "tinker://r/sampler_weights/000004", "", 4)
    log = TrainingLog([checkpoint("r", "000003", 3), weights, checkpoint("s", "000006", 6)])
    steps = {**steps_of(r_000003=3, s_000006=6), weights.sampler: 4}

    assert find_resumptions(log, steps)["s"].source == log.rows[0]
    assert list(held_batches(log, steps).values()) == [3, 4, 6]


def test_weights_with_fewer_steps_than_their_training_started_with_hold_an_unknown_number_of_batches():
    log = TrainingLog([checkpoint("r", "000003", 3), checkpoint("s", "000006", 6)])

    assert list(held_batches(log, steps_of(r_000003=5, s_000006=2)).values()) == [5, None]


def test_a_batch_of_several_steps_and_a_training_that_started_from_weights():
    started = "tinker://q/weights/final"
    log = TrainingLog([checkpoint("r", "000002", 2)], {"num_substeps": 4, "load_checkpoint_path": started})

    assert list(held_batches(log, {**steps_of(r_000002=108), started: 100}).values()) == [2]
    assert list(held_batches(log, steps_of(r_000002=108)).values()) == [None]
    assert log.paths[-1] == started


@given(st.integers(0, 3), st.integers(1, 4), st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True))
def test_checkpoints_of_a_loop_that_submits_ahead_hold_its_batches(ahead, of_batch, saves):
    saves.sort()
    log = TrainingLog([checkpoint("r", f"{batch:06d}", batch) for batch in saves], {"num_substeps": of_batch})
    steps = steps_of(**{f"r_{batch:06d}": (batch + ahead + 1) * of_batch for batch in saves})

    assert list(held_batches(log, steps).values()) == [batch + ahead + 1 for batch in saves]


def test_later_epochs_count_on_and_unknown_is_not_zero(tmp_path):
    rows = [{"name": "000012", "epoch": 1, "batch": 2, "state_path": "tinker://r/weights/a"}, {"name": 1, "batch": "x"}]
    (tmp_path / "checkpoints.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "config.json").write_text('{"half')

    log = read_log_directory(tmp_path)
    assert [(row.batch, row.run) for row in log.rows] == [(12, "r")]
    assert log.config == {}
    assert (steps_text(None), steps_text(1)) == ("optimiser steps unknown", "1 optimiser step")


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
