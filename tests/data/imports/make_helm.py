"""Writes helm-v1 and helm-v2 with HELM, its sample scenario and a model that asks nobody: python make_helm.py."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
WRONG = {"v1": 2, "v2": 5}
FILES = ("per_instance_stats.json", "run_spec.json", "instances.json")


def answers(engine: str, prompt: str) -> str:
    """Return the right letter, but for numbers that the model's own divides."""
    number = int(re.findall(r"Is (\d+) even or odd", prompt)[-1])
    right = number % 2 == 0
    return "A" if right != (number % WRONG[engine] == 0) else "B"


def client() -> None:
    Path("sums.py").write_text(
        "from helm.clients.simple_client import SimpleClient\n"
        "from make_helm import answers\n\n\n"
        "class Sums(SimpleClient):\n"
        "    def invoke_model(self, raw):\n"
        "        return {'completions': [answers(raw['engine'], raw['prompt'])] * raw['num_completions']}\n"
    )
    models = [f"sums/{name}" for name in WRONG]
    deployed = {"tokenizer_name": "simple/tokenizer1", "max_sequence_length": 2048}
    described = {"display_name": "", "description": "", "creator_organization_name": "ours", "access": "open"}
    described |= {"release_date": "2026-11-23", "tags": ["TEXT_MODEL_TAG"]}
    documents = {
        "model_deployments": [
            {"name": name, "model_name": name, **deployed, "client_spec": {"class_name": "sums.Sums"}}
            for name in models
        ],
        "model_metadata": [{"name": name, **described} for name in models],
    }
    for kind, listed in documents.items():
        Path("prod_env").mkdir(exist_ok=True)
        Path(f"prod_env/{kind}.yaml").write_text(json.dumps({kind: listed}))


def make() -> None:
    os.chdir(tempfile.mkdtemp())
    client()
    entries = [f"simple_mcqa:model=sums/{name}" for name in WRONG]
    flags = ["--suite", "sums", "--max-eval-instances", "8", "--num-threads", "1", "--disable-cache"]
    program = Path(sys.executable).with_name("helm-run")
    paths = {**os.environ, "PYTHONPATH": f".:{HERE}"}
    subprocess.run([program, "--run-entries", *entries, *flags], check=True, env=paths)
    for name in WRONG:
        (folder,) = Path("benchmark_output/runs/sums").glob(f"*model=sums_{name}*")
        for file in FILES:
            (HERE / f"helm-{name}").mkdir(exist_ok=True)
            shutil.copy(folder / file, HERE / f"helm-{name}" / file)


if __name__ == "__main__":
    make()
