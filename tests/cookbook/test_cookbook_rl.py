"""The task of example_suites/rl through tinker-cookbook's own loop, its checkpoints as a curve, and its evaluators as metrics.

Skipped in an environment without tinker-cookbook.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_crucible.local_model.server.process import LocalServer

pytest.importorskip("tinker_cookbook")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SUITE, PAGE = ROOT / "example_suites/rl", ROOT / "docs/how-to/cookbook.md"
TRAINING = "cookbook_training.py log_path=runs/documents batches=30 save_every=5"
CURVE = "models curve runs/documents --suite test_documents.py --metric right -- --crucible-tinker=hosted"
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


@pytest.fixture
def own_service(environment, tmp_path) -> Iterator[dict[str, str]]:
    """A server that nothing was sent to: seeds of replies, and the step of success, follow from the order of its clients."""
    with LocalServer.start(tmp_path / "tinker", options=["--as", "Qwen/Qwen3.5-9B-Base"]) as server:
        yield {**environment, **server.environment()}


def shown_on_page(command: str) -> list[str]:
    """Return the lines that the page shows after a command."""
    block = PAGE.read_text(encoding="utf-8").split(f"$ {command}\n")[1].split("```")[0]
    return block.splitlines()


def without_numbers(lines: list[str]) -> list[str]:
    """Return lines without spaces, numbers and results, which differ between processors."""
    blurred = [
        re.sub(r"\b[0-9a-f]{12}\b|<?[+-]?\d[\d.]*(e-\d+)?|not proven|better$|better(?=  )", "*", line) for line in lines
    ]
    return ["".join(line.split()) for line in blurred]


def test_rewards_rise_through_the_cookbooks_loop_and_the_curve_proves_it(own_service, tmp_path):
    """The commands of docs/how-to/cookbook.md."""
    shutil.copytree(SUITE, tmp_path / "rl", ignore=shutil.ignore_patterns(".crucible", "__pycache__"))
    folder = tmp_path / "rl"
    assert f"$ python {TRAINING}\n" in PAGE.read_text(encoding="utf-8")
    run(folder, own_service, *TRAINING.split())

    lines = (folder / "runs/documents/metrics.jsonl").read_text().splitlines()
    rewards = [row["env/all/reward/total"] for row in map(json.loads, lines) if "env/all/reward/total" in row]
    assert len(rewards) == 30
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.2

    done = run(folder, own_service, "-m", "pytest_crucible", *CURVE.split())
    expected, printed = shown_on_page(f"crucible {CURVE}"), done.stdout.splitlines()
    start = next(at for at, line in enumerate(printed) if line.startswith("first checkpoint"))
    assert without_numbers(printed[start:]) == without_numbers(expected[-len(printed[start:]) :])

    (curve,) = json.loads(
        run(folder, own_service, "-m", "pytest_crucible", *CURVE.replace(" -- ", " --json -- ").split()).stdout
    )["curves"]
    points = curve["checkpoints"]
    assert curve["simulated"]
    assert [each["step"] for each in points] == ["5", "10", "15", "20", "25", "30"]
    # When the training succeeds is chance; that the first proven checkpoint is named, and the last one is proven, is not.
    is_better = [each["p_adjusted"] < 0.05 and each["difference"] > 0 for each in points]
    assert curve["first_better"] == points[is_better.index(True)]["step"]
    assert is_better[-1]
    assert points[-1]["training"] > points[0]["training"]


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
