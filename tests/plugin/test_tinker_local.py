"""A checkpoint of the local Tinker in a suite: by its path, by its name, and what a session leaves behind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tiny_base import write_tiny_base

TRAIN = """
    import pathlib
    import pytest

    def got(future):
        return future.result(timeout=60) if hasattr(future, "result") else future

    @pytest.mark.parametrize("training_client", [{"rank": 4}], indirect=True)
    def test_train(training_client, tokenizer):
        import tinker
        tokens = tokenizer.encode("The answer is five.")
        inputs = {"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)}
        datum = tinker.Datum(model_input=tinker.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs)
        for _ in range(3):
            got(training_client.forward_backward([datum], "cross_entropy"))
            got(training_client.optim_step(tinker.AdamParams(learning_rate=0.05)))
        pathlib.Path("path.txt").write_text(got(training_client.save_weights_for_sampler("v2")).path)
"""
TEST_REPLIES = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl")
    @pytest.mark.score_bounds(length=(0, 100_000))
    @pytest.mark.quality_target("length >= 0")
    @pytest.mark.ab_compare("length")
    async def test_replies(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        with open(f"{sampler.arm.role}.txt", "a") as file:
            file.write(f"{sample.id} {reply.text!r} {reply.input_tokens} {reply.output_tokens} {reply.finish}\\n")
        score(length=len(reply.text))
        return reply
"""
GREEDY = {"temperature": 0.0, "max_tokens": 6}


@pytest.fixture
def trained(suite, monkeypatch, tmp_path) -> Any:
    """A suite in whose directory an adapter was trained through the SDK; `path.txt` has its path."""
    pytest.importorskip("tinker")
    for name in [name for name in os.environ if name.startswith("TINKER_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CRUCIBLE_TINKER_BASE", "base")
    write_tiny_base(suite.path / "base")
    (suite.path / "test_sums.py").unlink()
    suite.test(TRAIN, name="test_train")
    suite.run_apart().assert_outcomes(passed=1)
    (suite.path / "test_train.py").unlink()
    suite.test(TEST_REPLIES, name="test_replies")
    return suite


def configure(suite: Any, text: str) -> None:
    (suite.path / "crucible.toml").write_text(text)


def reply_texts(suite: Any, role: str) -> list[str]:
    path: Path = suite.path / f"{role}.txt"
    lines = sorted(path.read_text().splitlines())
    path.unlink()
    return lines


@pytest.mark.slow
def test_one_checkpoint_is_reached_by_path_and_by_name_and_answers_the_same(trained):
    path = (trained.path / "path.txt").read_text()
    settings = f"parameters = {{ temperature = {GREEDY['temperature']}, max_tokens = {GREEDY['max_tokens']} }}\n"
    configure(
        trained,
        f'[adapters.tinker]\nuri = "{path}"\n{settings}'
        f'[adapters.local]\nuri = "local:v2"\nbase = "base"\n{settings}'
        f'[adapters.bare]\nbackend = "tinker"\nbase_model = "crucible/tiny"\n{settings}',
    )
    rows = [{"id": f"q{k}", "input": data} for k, data in enumerate(INPUTS)]
    trained.write_rows("questions.jsonl", rows)
    # Five samples are too few for a verdict on two arms.
    trained.run_apart("--crucible-adapter=tinker", "--compare=local").assert_outcomes(passed=2, skipped=1)
    candidate, baseline = reply_texts(trained, "candidate"), reply_texts(trained, "baseline")

    assert candidate == baseline
    assert [line for line in candidate if line.startswith("q4 ")] == ["q4 '' 60 0 length"]  # longer than the context
    trained.run_apart("--crucible-adapter=bare")
    assert reply_texts(trained, "candidate") != candidate


INPUTS: tuple[Any, ...] = (
    "What is the sum of two and three?",
    [{"role": "user", "content": "What is the sum?"}],
    [{"role": "system", "content": "One."}, {"role": "user", "content": "two?"}],
    "",
    "~" * 60,
)


def test_a_path_may_be_typed(trained):
    configure(trained, "")
    path = (trained.path / "path.txt").read_text()

    trained.run_apart(f"--crucible-adapter={path}").assert_outcomes(passed=2)


def test_a_session_leaves_no_thread_and_no_socket(trained):
    path = (trained.path / "path.txt").read_text()
    configure(trained, f'[adapters]\nv2 = "{path}"\n')
    (trained.path / "conftest.py").write_text(
        """
import atexit, json, os, pathlib, threading

def left():
    links = [os.readlink(one) for one in pathlib.Path("/proc/self/fd").iterdir() if one.is_symlink()]
    sockets = [one for one in links if one.startswith("socket:")]
    threads = [one.name for one in threading.enumerate() if one.name.startswith(("tinker", "crucible"))]
    pathlib.Path("left.json").write_text(json.dumps([len(sockets), threads]))

def pytest_configure(config):
    atexit.register(left)
"""
    )
    trained.run_apart("--crucible-adapter=v2").assert_outcomes(passed=2)

    sockets, threads = json.loads((trained.path / "left.json").read_text())
    assert threads == []
    assert sockets <= 2  # by which the SDK's own loop wakes itself up
