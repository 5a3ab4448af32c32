"""The example suites give the numbers that are known of their data, by the commands that README gives."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SUITES = Path(__file__).parent.parent / "example_suites"
RIGHT = {"6b_finetuning": 286, "6b_verification": 515, "175b_finetuning": 458, "175b_verification": 742}
"""Of 1,319 questions, by the `is_correct` that was published with the solutions."""

needs_data = pytest.mark.skipif(
    "CRUCIBLE_DATA" not in os.environ, reason="CRUCIBLE_DATA does not name a directory with gsm8k/"
)


def run_suite(name: str, tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit status and JSON of a suite, run on a copy so that its run store is its own."""
    suite = tmp_path / name
    shutil.copytree(SUITES / name, suite, ignore=shutil.ignore_patterns(".crucible", "__pycache__"))
    plugins = ("-p", "no:asyncio", "-p", "no:hypothesispytest", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugins, str(suite), "--crucible-json=run.json", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, json.loads((tmp_path / "run.json").read_text())


@needs_data
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["plain", "n2"])
@pytest.mark.parametrize(
    ("candidate", "baseline", "status"),
    [("6b_verification", "6b_finetuning", 1), ("175b_verification", "175b_finetuning", 0)],
    ids=["6b", "175b"],
)
def test_a_verifier_raises_the_accuracy(tmp_path, candidate, baseline, status, workers):
    """0.2168 -> 0.3904 and 0.3472 -> 0.5625. With 6B parameters the target of 0.40 is missed all the same."""
    found, document = run_suite("gsm8k", tmp_path, f"--crucible-adapter={candidate}", f"--compare={baseline}", *workers)

    estimates = {one["arm"]: one["value"] for one in document["experiments"][0]["estimates"]}
    assert found == status
    assert estimates == pytest.approx({name: RIGHT[name] / 1319 for name in (candidate, baseline)}, abs=1e-12)


@needs_data
def test_a_small_verifier_beats_a_large_model_without_one(tmp_path):
    """306 questions both answer right, 209 and 152 only one of them; R: binom.test(152, 361), Tango (1998) by its roots."""
    status, document = run_suite("gsm8k", tmp_path, "--crucible-adapter=175b_finetuning", "--compare=6b_verification")

    [one] = document["experiments"][0]["comparisons"]
    assert status == 1
    assert one["pairs"] == 1319
    assert one["difference"] == pytest.approx((152 - 209) / 1319, abs=1e-12)
    assert (one["low"], one["high"]) == pytest.approx((-0.07145819288, -0.01505173896), abs=1e-9)
    assert one["p_value"] == pytest.approx(0.002699796063, abs=1e-9)
    assert one["p_exact"] == pytest.approx(0.00315065688, abs=1e-9)


def test_the_smallest_suite_needs_nothing_else(tmp_path):
    status, document = run_suite("arithmetic", tmp_path, "--crucible-adapter=v2", "--compare=v1")

    assert status == 0
    assert [one["state"] for one in document["experiments"][0]["verdicts"]] == ["met", "met"]
