"""Writes eee-*.json and eee-*_samples.jsonl with the converters of Every Eval Ever: python make_every_eval_ever.py LOGS.

LOGS is the folder with the logs of Inspect and lm-evaluation-harness that they convert.
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
    "inspect-v1": ("inspect", LOGS / "inspect-v1.eval"),
    "inspect-v2": ("inspect", LOGS / "inspect-v2.eval"),
    "lm-eval-v2": ("lm_eval", LOGS / "lm-eval-v2"),
}


def make(name: str, kind: str, log: Path, work: Path) -> None:
    command = [sys.executable, "-m", "every_eval_ever", "convert", kind, "--log_path", str(log), "--output_dir", str(work)]
    subprocess.run([*command, *(["--include_samples"] if kind == "lm_eval" else [])], check=True, cwd=work)
    for samples in sorted(work.rglob("*_samples.jsonl")):
        aggregate = samples.with_name(samples.name.replace("_samples.jsonl", ".json"))
        shutil.copy(samples, HERE / f"eee-{name}_samples.jsonl")
        shutil.copy(aggregate, HERE / f"eee-{name}.json")


for source, (kind_of_log, path) in SOURCES.items():
    with tempfile.TemporaryDirectory() as folder:
        make(source, kind_of_log, path, Path(folder))
