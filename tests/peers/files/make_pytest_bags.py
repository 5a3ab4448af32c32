"""Writes pytest-evals.{json,csv} and pytest-harvest.{json,csv} with these plugins and pandas: python make_pytest_bags.py."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CONFTEST = """
import json
from pathlib import Path

from pytest_harvest import get_session_results_dct, get_session_results_df


def pytest_sessionfinish(session):
    get_session_results_df(session).to_csv("harvest.csv")
    told = {name: {**one, "pytest_obj": ""} for name, one in get_session_results_dct(session).items()}
    Path("harvest.json").write_text(json.dumps(told, indent=1))
"""
SUITE = """
import pytest

WRONG = {{"v1": 4, "v2": 1}}


{mark}
@pytest.mark.parametrize("k", range(1, 9))
@pytest.mark.parametrize("arm", ["v2", "v1"])
def test_sum(arm, k, {bag}):
    if arm == "v2" and k == 8:
        raise RuntimeError("the model server went away")
    {bag}.reply = "a thousand" if k <= WRONG[arm] else str(2 * k)
    {bag}.correct = {bag}.reply == str(2 * k)
    {bag}.similarity = 1.0 if {bag}.correct else 0.25
"""


def make() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:deepeval", "-p", "no:plugins"]
        evals = SUITE.format(mark='@pytest.mark.eval(name="sums")', bag="eval_bag")
        (folder / "test_evals.py").write_text(evals)
        arguments = ["--run-eval", "--save-evals-csv", "--out-path", "out", "test_evals.py"]
        subprocess.run([*pytest, *arguments], cwd=folder, check=False, stdout=subprocess.DEVNULL)
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_harvest.py").write_text(SUITE.format(mark="", bag="results_bag"))
        subprocess.run([*pytest, "test_harvest.py"], cwd=folder, check=False, stdout=subprocess.DEVNULL)
        for ending in ("json", "csv"):
            shutil.copy(folder / "out" / f"eval-results-raw.{ending}", HERE / f"pytest-evals.{ending}")
            shutil.copy(folder / f"harvest.{ending}", HERE / f"pytest-harvest.{ending}")


if __name__ == "__main__":
    make()
