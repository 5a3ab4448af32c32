"""Writes v1.json and v2.json with the report that SWE-bench makes of a run: python make_swe_bench.py.

Grading runs a repository's tests in Docker. So the report of each instance is written here, as `get_eval_report` has it.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESOLVED = {"v1": {1, 2, 3}, "v2": {1, 2, 3, 4, 5, 6}}
INSTANCES = [{"instance_id": f"sums__sums-{k}", "repo": "sums/sums"} for k in range(1, 11)]


def write_instance(folder: Path, number: int, *, resolved: bool) -> None:
    folder.mkdir(parents=True)
    report = {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": True,
        "resolved": resolved,
        "infra_failure": False,
    }
    (folder / "report.json").write_text(json.dumps({f"sums__sums-{number}": report}), encoding="utf-8")


def make(arm: str) -> None:
    from swebench.harness.constants import RUN_EVALUATION_LOG_DIR
    from swebench.harness.reporting import make_run_report

    predictions = {}
    for number in range(1, 10):
        patch = "" if number == 8 else f"patch {number}"
        name = f"sums__sums-{number}"
        predictions[name] = {"instance_id": name, "model_name_or_path": arm, "model_patch": patch}
        folder = RUN_EVALUATION_LOG_DIR / "run" / arm / name
        if number < 7:
            write_instance(folder, number, resolved=number in RESOLVED[arm])
        elif number == 7:
            folder.mkdir(parents=True)
            (folder / "run_instance.log").write_text("Cannot connect to the Docker daemon", encoding="utf-8")
        elif number == 9:
            folder.mkdir(parents=True)
            (folder / "run_instance.log").write_text(">>>>> Patch Apply Failed", encoding="utf-8")
    make_run_report(predictions, INSTANCES, "run", report_dir=str(HERE))
    (HERE / f"{arm}.run.json").rename(HERE / f"swe-bench-{arm}.json")


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    for name in RESOLVED:
        make(name)
