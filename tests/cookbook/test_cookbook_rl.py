"""The task of example_suites/rl through tinker-cookbook's own loop, its checkpoints as a curve, and its evaluators as metrics.

Skipped in an environment without tinker-cookbook.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tinker_cookbook")
pytestmark = pytest.mark.slow

SUITE = Path(__file__).parents[2] / "example_suites/rl"
EVALUATORS = """
from tinker_cookbook import renderers
from tinker_cookbook.renderers import TrainOnWhat
from tinker_cookbook.supervised.data import conversation_to_datum
from tinker_cookbook.supervised.nll_evaluator import SamplerNLLEvaluator
from tinker_cookbook.tokenizer_utils import get_tokenizer

MODEL = "Qwen/Qwen3.5-9B-Base"


def nll(sample):
    renderer = renderers.get_renderer("role_colon", get_tokenizer(MODEL))
    messages = [
        {"role": "user", "content": sample.input},
        {"role": "assistant", "content": sample.expected},
    ]
    datum = conversation_to_datum(messages, renderer, 512, TrainOnWhat.LAST_ASSISTANT_MESSAGE)
    return SamplerNLLEvaluator([datum], name="test")
"""
TEST = """
import pytest
from pytest_crucible import cookbook

DATA = [{"id": f"q{k}", "input": f"What is {k} + 1?", "expected": f"{k + 1}"} for k in range(6)]


@pytest.mark.crucible(dataset=DATA, metrics=[cookbook.evaluator("evals:nll", figure="test/nll", direction="lower")])
async def test_likelihood(sample):
    return sample.expected
"""


def run(folder: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done


def test_rewards_rise_through_the_cookbooks_loop_and_the_curve_proves_it(environment, tmp_path):
    shutil.copytree(SUITE, tmp_path / "rl", ignore=shutil.ignore_patterns(".crucible", "__pycache__"))
    folder = tmp_path / "rl"
    run(folder, environment, "cookbook_training.py", "batches=15")

    lines = (folder / "runs/documents/metrics.jsonl").read_text().splitlines()
    rewards = [row["env/all/reward/total"] for row in map(json.loads, lines) if "env/all/reward/total" in row]
    assert len(rewards) == 15
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.2

    arguments = ("curve", "runs/documents", "--suite", "test_documents.py", "--metric", "right", "--json")
    done = run(folder, environment, "-m", "pytest_crucible", *arguments, "--", "--crucible-tinker=hosted")
    (curve,) = json.loads(done.stdout)["curves"]
    assert [each["step"] for each in curve["checkpoints"]] == ["5", "10", "15"]
    assert curve["simulated"]
    assert curve["first_better"] in ("5", "10", "15")
    assert curve["checkpoints"][-1]["training"] > curve["checkpoints"][0]["training"]


def test_an_evaluator_of_the_cookbook_is_a_metric(environment, tmp_path):
    (tmp_path / "evals.py").write_text(EVALUATORS)
    (tmp_path / "test_nll.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    words = ("--crucible-adapter=tinker:Qwen/Qwen3.5-9B-Base", "--crucible-tinker=hosted", "--crucible-json=run.json")
    run(tmp_path, environment, "-m", "pytest", *words)
    (experiment,) = json.loads((tmp_path / "run.json").read_text())["experiments"]
    (estimate,) = experiment["estimates"]
    assert (estimate["metric"], estimate["n"], estimate["lost"]) == ("nll", 6, 0)
    assert estimate["value"] > 0
    assert estimate["low"] < estimate["value"] < estimate["high"]
