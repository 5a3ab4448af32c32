"""Writes helm-v1 and helm-v2 with HELM, its sample scenario and a model that sends nothing: python make_helm.py."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
WRONG = {"v1": 2, "v2": 5}


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


def run(entries: list[str], *flags: str) -> dict[str, Path]:
    """Run HELM, and return the folder of each model."""
    suite = ["--suite", f"sums{len(flags)}", "--num-threads", "1", "--disable-cache"]
    program, paths = Path(sys.executable).with_name("helm-run"), {**os.environ, "PYTHONPATH": f".:{HERE}"}
    subprocess.run([program, "--run-entries", *entries, *suite, *flags], check=True, env=paths)
    folders = Path("benchmark_output/runs").glob(f"{suite[1]}/*model=*")
    return {next(name for name in WRONG if f"sums_{name}" in folder.name): folder for folder in folders}


def keep(folder: Path, name: str, files: tuple[str, ...]) -> None:
    """Copy files without their indentation, which is most of them."""
    (HERE / name).mkdir(exist_ok=True)
    for file in files:
        (HERE / name / file).write_text(json.dumps(json.loads((folder / file).read_text())) + "\n")


def make() -> None:
    os.chdir(tempfile.mkdtemp())
    client()
    for name, folder in run([f"simple_mcqa:model=sums/{name}" for name in WRONG], "--max-eval-instances", "8").items():
        keep(folder, f"helm-{name}", ("per_instance_stats.json", "run_spec.json", "scenario_state.json"))
    perturbed = ["simple_mcqa:model=sums/v2,data_augmentation=extra_space"]
    (folder,) = run(perturbed, "--max-eval-instances", "2", "--num-train-trials", "2").values()
    keep(folder, "helm-perturbed", ("per_instance_stats.json", "run_spec.json"))


if __name__ == "__main__":
    make()
