"""Writes eee-*.json and eee-*_samples.jsonl with the converter of Every Eval Ever: python make_every_eval_ever.py LOGS.

LOGS is the folder with the logs of lm-evaluation-harness that it converts.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOGS = Path(sys.argv[1]).resolve()
SOURCES = {
    "lm-eval-v1": ("lm_eval", LOGS / "lm-eval-v1"),
    "lm-eval-v2": ("lm_eval", LOGS / "lm-eval-v2"),
}


def copy_with_developer(log: Path, work: Path) -> Path:
    """Return a copy of a run whose model has a developer, as the names of models in the shared data have."""
    target = work / "logs" / log.name
    shutil.copytree(log, target)
    for path in target.glob("results_*.json"):
        text = path.read_text(encoding="utf-8").replace('"model_name": "v', '"model_name": "sums/v')
        path.write_text(text, encoding="utf-8")
    return target


def make(name: str, kind: str, log: Path, work: Path) -> None:
    log = copy_with_developer(log, work)
    command = [
        sys.executable,
        "-m",
        "every_eval_ever",
        "convert",
        kind,
        "--log_path",
        str(log),
        "--output_dir",
        str(work),
    ]
    subprocess.run([*command, *(["--include_samples"] if kind == "lm_eval" else [])], check=True, cwd=work)
    for samples in sorted(work.rglob("*_samples.jsonl")):
        aggregate = samples.with_name(samples.name.replace("_samples.jsonl", ".json"))
        if "sums_choice" not in samples.read_text(encoding="utf-8"):
            continue
        shutil.copy(samples, HERE / f"eee-{name}_samples.jsonl")
        shutil.copy(aggregate, HERE / f"eee-{name}.json")


for source, (kind_of_log, path) in SOURCES.items():
    with tempfile.TemporaryDirectory() as folder:
        make(source, kind_of_log, path, Path(folder))
